"""What recipes call the layers of a model: blocks.N.attn.q, blocks.N.mlp.down, head."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from torch import nn

#: What a user may say of names: globs with {n} for a block's number, or a function.
Names = Mapping[str, str] | Callable[[str], str | None]

_GPT2 = {
    "*h.{n}.attn.c_attn": "blocks.{n}.attn.qkv",
    "*h.{n}.attn.c_proj": "blocks.{n}.attn.out",
    "*h.{n}.mlp.c_fc": "blocks.{n}.mlp.up",
    "*h.{n}.mlp.c_proj": "blocks.{n}.mlp.down",
}
# Llama, Mistral, Qwen2, Qwen3, Gemma
_LLAMA = {
    **{f"*layers.{{n}}.self_attn.{part}_proj": f"blocks.{{n}}.attn.{part}" for part in "qkv"},
    "*layers.{n}.self_attn.o_proj": "blocks.{n}.attn.out",
    **{
        f"*layers.{{n}}.mlp.{part}_proj": f"blocks.{{n}}.mlp.{part}"
        for part in ("gate", "up", "down")
    },
}
# Phi and OPT
_PHI = {
    "*layers.{n}.self_attn.dense": "blocks.{n}.attn.out",
    "*layers.{n}.self_attn.out_proj": "blocks.{n}.attn.out",
    "*layers.{n}.self_attn.qkv_proj": "blocks.{n}.attn.qkv",
    "*layers.{n}.mlp.gate_up_proj": "blocks.{n}.mlp.up",
    "*layers.{n}.mlp.fc1": "blocks.{n}.mlp.up",
    "*layers.{n}.mlp.fc2": "blocks.{n}.mlp.down",
    "*layers.{n}.fc1": "blocks.{n}.mlp.up",
    "*layers.{n}.fc2": "blocks.{n}.mlp.down",
}
# BERT and transformers' ViT
_BERT = {
    **{
        f"*layer.{{n}}.attention.{inner}.{word}": f"blocks.{{n}}.attn.{word[0]}"
        for inner in ("self", "attention")
        for word in ("query", "key", "value")
    },
    "*layer.{n}.attention.output.dense": "blocks.{n}.attn.out",
    "*layer.{n}.intermediate.dense": "blocks.{n}.mlp.up",
    "*layer.{n}.output.dense": "blocks.{n}.mlp.down",
    "*layers.{n}.attention.q_proj": "blocks.{n}.attn.q",
    "*layers.{n}.attention.k_proj": "blocks.{n}.attn.k",
    "*layers.{n}.attention.v_proj": "blocks.{n}.attn.v",
    "*layers.{n}.attention.o_proj": "blocks.{n}.attn.out",
}
# timm's ViT, and most that are written after it
_TIMM = {
    "*blocks.{n}.attn.qkv": "blocks.{n}.attn.qkv",
    "*blocks.{n}.attn.proj": "blocks.{n}.attn.out",
    "*blocks.{n}.mlp.fc1": "blocks.{n}.mlp.up",
    "*blocks.{n}.mlp.fc2": "blocks.{n}.mlp.down",
}
_HEADS = {
    name: "head"
    for name in ("lm_head", "*.lm_head", "embed_out", "head", "classifier", "score", "qa_outputs",
                 "cls.predictions.decoder", "cls.seq_relationship", "fc")
}
_POOLERS = {name: "pooler" for name in ("*pooler.dense", "pooler", "cls.predictions.transform.dense",
                                        "vit.pooler.dense")}
_PARTS = {
    **{f"{part}_proj": f"attn.{part}" for part in "qkv"},
    "o_proj": "attn.out",
}
_TABLES = (_GPT2, _LLAMA, _PHI, _BERT, _TIMM, _HEADS, _POOLERS)

# Within a block of T5's encoder or decoder.
_T5 = {
    "SelfAttention.q": "attn.q",
    "SelfAttention.k": "attn.k",
    "SelfAttention.v": "attn.v",
    "SelfAttention.o": "attn.out",
    "EncDecAttention.q": "cross.q",
    "EncDecAttention.k": "cross.k",
    "EncDecAttention.v": "cross.v",
    "EncDecAttention.o": "cross.out",
    "DenseReluDense.wi": "mlp.up",
    "DenseReluDense.wi_0": "mlp.gate",
    "DenseReluDense.wi_1": "mlp.up",
    "DenseReluDense.wo": "mlp.down",
}


def matches(pattern: str, name: str) -> dict[str, str] | None:
    """What {n} stands for where a name matches a glob (* is anything); None: it does not."""
    regex = re.escape(pattern).replace(r"\*", ".*").replace(r"\{n\}", r"(?P<n>\d+)")
    found = re.fullmatch(regex, name)
    return found.groupdict() if found else None


def is_meant(patterns: tuple[str, ...], name: str) -> bool:
    """Whether a pattern matches a name or that of a module around it."""
    parts = name.split(".")
    within = [".".join(parts[: end + 1]) for end in range(len(parts))]
    return any(matches(pattern, one) is not None for pattern in patterns for one in within)


def _by_table(table: Mapping[str, str], name: str) -> str | None:
    for pattern, canonical in table.items():
        found = matches(pattern, name)
        if found is not None:
            return canonical.replace("{n}", found.get("n", ""))
    return None


def _t5_name(model: nn.Module, name: str) -> str | None:
    """Blocks of the decoder are counted behind those of the encoder."""
    found = re.fullmatch(r"(.*\b)?(encoder|decoder)\.block\.(\d+)\.layer\.\d+\.(.+)", name)
    if found is None or found[4] not in _T5:
        return None
    block = int(found[3])
    if found[2] == "decoder":
        encoder = dict(model.named_modules()).get(f"{found[1] or ''}encoder.block")
        block += len(encoder) if isinstance(encoder, nn.ModuleList) else 0
    return f"blocks.{block}.{_T5[found[4]]}"


def _blocks_of(model: nn.Module) -> str | None:
    """The outermost list of like modules, the longest of several."""
    lists: list[tuple[str, nn.ModuleList]] = []
    for name, module in model.named_modules():
        if not isinstance(module, nn.ModuleList) or len(module) == 0:
            continue
        is_inside = any(name.startswith(f"{outer}.") for outer, _ in lists)
        if not is_inside and len({type(item) for item in module}) == 1:
            lists.append((name, module))
    return max(lists, key=lambda found: len(found[1]))[0] if lists else None


class Namer:
    """Names of one model's layers, by what the user says, by tables, by where they lie."""

    def __init__(self, model: nn.Module, names: Names | None) -> None:
        self._model, self._names = model, names
        self._blocks = _blocks_of(model)

    def of(self, module: str) -> str | None:
        """None where no rule reaches it."""
        for rule in (self._said, self._known, self._placed):
            name = rule(module)
            if name:
                return name
        return None

    def _said(self, module: str) -> str | None:
        if self._names is None:
            return None
        return self._names(module) if callable(self._names) else _by_table(self._names, module)

    def _known(self, module: str) -> str | None:
        for table in _TABLES:
            name = _by_table(table, module)
            if name:
                return name
        return _t5_name(self._model, module)

    def _placed(self, module: str) -> str | None:
        if self._blocks is None:
            return None
        inside = module.removeprefix(f"{self._blocks}.") if module != self._blocks else ""
        if inside == module or "." not in inside:
            return f"blocks.{inside}.linear" if inside.isdigit() else None
        number, _, kind = inside.partition(".")
        return f"blocks.{number}.{kind}"


def block_of(name: str) -> int:
    """The number of a canonical name's block; -1 outside of blocks."""
    found = re.match(r"blocks\.(\d+)\.", name)
    return int(found[1]) if found else -1
