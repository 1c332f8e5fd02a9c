"""What recipes call the layers of a model: blocks.N.attn.q, blocks.N.mlp.down, head."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from torch import nn

from .._arguments import mapping_of_texts
from .._errors import ArgumentError, Error
from ._layers import is_linear

#: What a user may say of names: globs with {n} for a block's number, or a function.
Names = Mapping[str, str] | Callable[[str], str | None]

# A kind of layer by its path behind the number of its block. Of the list of blocks:
_BLOCKS: dict[str, dict[str, str]] = {
    "h": {  # GPT-2
        "attn.c_attn": "attn.qkv",
        "attn.c_proj": "attn.out",
        "mlp.c_fc": "mlp.up",
        "mlp.c_proj": "mlp.down",
    },
    "layers": {
        **{f"self_attn.{part}_proj": f"attn.{part}" for part in "qkv"},
        "self_attn.o_proj": "attn.out",  # Llama, Mistral, Qwen2, Qwen3, Gemma
        **{f"mlp.{part}_proj": f"mlp.{part}" for part in ("gate", "up", "down")},
        "self_attn.dense": "attn.out",  # Phi
        "mlp.fc1": "mlp.up",  # and ViT
        "mlp.fc2": "mlp.down",
        "self_attn.qkv_proj": "attn.qkv",  # Phi-3
        "mlp.gate_up_proj": "mlp.up",
        "self_attn.out_proj": "attn.out",  # OPT
        "fc1": "mlp.up",
        "fc2": "mlp.down",
        **{f"attention.{part}_proj": f"attn.{part}" for part in "qkv"},  # ViT
        "attention.o_proj": "attn.out",
    },
    "layer": {  # BERT, and ViT of transformers 4
        **{f"attention.{own}.{word}": f"attn.{word[0]}"
           for own in ("self", "attention") for word in ("query", "key", "value")},
        "attention.output.dense": "attn.out",
        "intermediate.dense": "mlp.up",
        "output.dense": "mlp.down",
    },
    "block": {  # T5
        **{f"layer.*.SelfAttention.{part}": f"attn.{part}" for part in "qkv"},
        "layer.*.SelfAttention.o": "attn.out",
        **{f"layer.*.EncDecAttention.{part}": f"cross.{part}" for part in "qkv"},
        "layer.*.EncDecAttention.o": "cross.out",
        "layer.*.DenseReluDense.wi": "mlp.up",
        "layer.*.DenseReluDense.wi_0": "mlp.gate",
        "layer.*.DenseReluDense.wi_1": "mlp.up",
        "layer.*.DenseReluDense.wo": "mlp.down",
    },
    "blocks": {  # timm's ViT, and most that are written after it
        "attn.qkv": "attn.qkv",
        "attn.proj": "attn.out",
        "mlp.fc1": "mlp.up",
        "mlp.fc2": "mlp.down",
    },
}
# Outside of blocks, by how a path ends.
_OTHERS = {
    **{name: "head" for name in ("lm_head", "head", "classifier", "score", "qa_outputs",
                                 "cls.predictions.decoder", "cls.seq_relationship")},
    "cls.predictions.transform.dense": "transform",
    "pooler.dense": "pooler",
    "decoder.project_in": "project_in",  # OPT
    "decoder.project_out": "project_out",
}
_MOST_BLOCKS = 1 << 20
# What PEFT has inside of its own layers in place of a model's.
_WRAPPED = re.compile(r"\.base_layer$|\.modules_to_save\.\w+$|\.original_module$")
# A path into a list of blocks that lies in no other one.
_IN_BLOCK = re.compile(r"((?:\d+\.)*(?:[^.\d][^.]*\.)*?([^.\d][^.]*))\.(\d+)\.(.+)")


def matches(pattern: str, name: str) -> dict[str, str] | None:
    """What {n} stands for where a name matches a glob (* is anything); None: it does not."""
    regex = re.escape(pattern).replace(r"\*", ".*").replace(r"\{n\}", r"(?P<n>\d+)", 1)
    regex = regex.replace(r"\{n\}", "(?P=n)")
    found = re.fullmatch(regex, name)
    return found.groupdict() if found else None


def is_meant(patterns: Iterable[str], name: str) -> bool:
    """Whether a pattern matches a name or that of a module around it."""
    parts = name.split(".")
    within = [".".join(parts[: end + 1]) for end in range(len(parts))]
    return any(matches(pattern, one) is not None for pattern in patterns for one in within)


def is_adapter(name: str) -> bool:
    """Whether a layer is one of the two that PEFT puts beside another."""
    return re.search(r"\.lora_[AB]\.\w+$", name) is not None


def _by_table(table: Mapping[str, str], name: str) -> str | None:
    for pattern, canonical in table.items():
        found = matches(pattern, name)
        if found is not None:
            return canonical.replace("{n}", found.get("n", ""))
    return None


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


def _length(model: nn.Module, stack: str) -> int:
    blocks = model.get_submodule(stack)
    return len(blocks) if isinstance(blocks, (nn.ModuleList, nn.Sequential)) else 0


class Namer:
    """Names of one model's layers, by what the user says, by tables, by where they lie."""

    def __init__(self, model: nn.Module, names: Names | None) -> None:
        if names is not None and not callable(names):
            names = mapping_of_texts(names, "names", '{"layers.{n}.ff": "blocks.{n}.mlp.up"}')
            _require_met(names, model)
        self._model, self._names = model, names
        self._blocks = _blocks_of(model)
        self._stacks: dict[str, int] = {}  # lists of blocks that tables know: blocks before theirs

    def of(self, module: str) -> str | None:
        """None where no rule reaches it."""
        if self._names is not None:
            said = self._names(module) if callable(self._names) else _by_table(self._names, module)
            if said:
                return _checked(said, module)
        plain = _WRAPPED.sub("", module)
        return self._known(plain) or self._placed(plain)

    def _known(self, module: str) -> str | None:
        found = _IN_BLOCK.fullmatch(module)
        if found is None:
            ends = (name for end, name in _OTHERS.items() if f".{module}".endswith(f".{end}"))
            return next(ends, None)
        stack, kind, number, path = found.groups()
        name = _by_table(_BLOCKS.get(kind, {}), path)
        if name is None and kind == "blocks":  # which timm's are, in an nn.Sequential
            name = path
        return f"blocks.{self._before(stack) + int(number)}.{name}" if name else None

    def _before(self, stack: str) -> int:
        """Blocks of a decoder are counted behind those of the encoder."""
        if stack not in self._stacks:
            self._stacks[stack] = sum(_length(self._model, other) for other in self._stacks)
        return self._stacks[stack]

    def _placed(self, module: str) -> str | None:
        if self._blocks is None or not module.startswith(f"{self._blocks}."):
            return None
        number, _, kind = module.removeprefix(f"{self._blocks}.").partition(".")
        return f"blocks.{self._before(self._blocks) + int(number)}.{kind or 'linear'}"


def _require_met(names: Mapping[str, str], model: nn.Module) -> None:
    """That each pattern means a layer, and all that its name asks for."""
    layers = [name for name, module in model.named_modules() if is_linear(module)]
    for pattern, canonical in names.items():
        found = (matches(pattern, name) for name in layers)
        said = next((stands for stands in found if stands is not None), None)
        if said is None:
            raise Error(f'"{pattern}" means no linear layer', "a glob over names of the model's "
                        "layers", key="names")
        if "{" in (canonical.replace("{n}", "") if "n" in said else canonical):
            raise Error(f'"{pattern}": "{canonical}"', "{n} in both, for the number of a block, "
                        "or in neither", key="names")


def _checked(said: str, module: str) -> str:
    """What a user calls a layer."""
    if not isinstance(said, str):
        raise ArgumentError(f"says {type(said).__name__} of {module}", "a text, or None for a "
                            "layer that other rules name", key="names")
    if block_of(said) >= _MOST_BLOCKS:
        raise Error(f'"{said}"', f"a block below {_MOST_BLOCKS}", key="names")
    return said


def depth_of(names: Iterable[str], blocks: int | None) -> int:
    """How many blocks a model has whose layers have these canonical names; blocks: as asked."""
    known = max((block_of(name) for name in names), default=-1) + 1
    if blocks is not None and blocks < known:
        raise Error(f"{blocks}, and a layer is in blocks.{known - 1}", f"{known} or more",
                    key="blocks")
    return blocks or known


def block_of(name: str) -> int:
    """The number of a canonical name's block; -1 outside of blocks."""
    found = re.match(r"blocks\.(\d+)\.", name)
    return int(found[1]) if found else -1
