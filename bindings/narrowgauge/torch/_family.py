"""Models that the trainer has too: the names and the tensor ids that it gives to their tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn

from .. import _core
from .._errors import Error
from ._ids import Ids

#: The modules that make what transformers calls a model of text; its files have their names.
_WHOLE = "ForCausalLM", "LMHeadModel"


@dataclass(frozen=True)
class Named:
    """A parameter as the trainer knows it."""

    name: str  #: "blocks.0.attn.q.weight"
    id: int  #: of draws
    is_vector: bool  #: FP32, whatever the recipe stores


@dataclass(frozen=True)
class Family:
    """A model as the trainer has it."""

    config: str  #: its config.json
    parameters: Mapping[str, Named]  #: by the model's names of them
    learned: Mapping[str, Named]  #: what noise on weights learns, by the trainer's names
    layers: Mapping[str, Ids]  #: by the trainer's names


def config_json(model: nn.Module) -> str | None:
    """The config.json of a model of transformers; None of any other."""
    config = getattr(model, "config", None)
    if config is None or not hasattr(config, "to_json_string"):
        return None
    if not type(model).__name__.endswith(_WHOLE):
        return None
    return str(config.to_json_string(use_diff=False))


def family_of(model: nn.Module, recipe: _core.Recipe) -> Family | None:
    """None for a model that the trainer does not have."""
    try:
        return require_family(model, recipe)
    except Error:
        return None


def require_family(model: nn.Module, recipe: _core.Recipe) -> Family:
    """Raises Error where the trainer does not have the model, naming why."""
    text = config_json(model)
    if text is None:
        raise Error(
            f"is {type(model).__name__}, which the trainer does not have",
            "a GPT-2, Llama, Mistral, Qwen2 or Qwen3 of transformers for text", key="model",
        )
    tensors = _core.model_tensors(text, recipe)
    rows = {row["name"]: Named(row["name"], row["id"], row["is_vector"])
            for row in tensors["parameters"]}  # fmt: skip
    named = {row["hf_name"]: rows[row["name"]] for row in tensors["parameters"] if row["hf_name"]}
    own = {name for name, _ in model.named_parameters() if ".ng_" not in name}
    if own != set(named):
        odd = sorted(own ^ set(named))[0]
        raise Error(
            f"{odd} is {'no parameter of the trainer' if odd in own else 'missing'}",
            "a model as its config describes it", key="model",
        )
    learned = {name: row for name, row in rows.items() if row not in named.values()}
    return Family(text, named, learned, {row["name"]: _ids(row) for row in tensors["layers"]})


def _ids(row: Mapping[str, Any]) -> Ids:
    return Ids(row["weight_id"], row["input_id"], row["output_id"])
