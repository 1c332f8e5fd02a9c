"""A model of PyTorch for other programs."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from .._arguments import one_of
from .._errors import Error
from .._models import export_folder
from .._paths import path_text
from ._layers import Linear
from ._steps import engines_of

Path = str | os.PathLike[str]


def export(
    model: nn.Module,
    out: Path,
    to: str | None = None,
    type: str = "bf16",
    *,
    weights: str = "values",
    tokenizer: Any = None,
    keep: Mapping[str, str] | None = None,
    block: str | tuple[int, int] | None = None,
    share_scales: bool = False,
) -> None:
    """A model for llama.cpp, transformers and vLLM, as `narrowgauge export` writes it.

    model: a GPT-2, Llama, Mistral, Qwen2 or Qwen3 of transformers, converted or not; others are
        refused by name.
    to: "gguf", a file, or "hf", a folder; else as `out` ends. type, keep, block, share_scales: as
        of narrowgauge.Model.export.
    weights: "values", rounded plainly, or "trained": codes and scales that the weight's operand has
        in training, by the recipe of convert.
    tokenizer: of transformers, or the folder of one; without it other programs have numbers for
        tokens.

    Nothing is left at `out` after an error. Writes the model's values once into a folder beside
    `out`, which goes.
    """
    one_of(weights, "weights", "values", "trained")
    if not hasattr(model, "save_pretrained"):
        raise Error(f"is {_name(model)}, which no program takes", "a model of transformers",
                    key="model")
    path = path_text(out, "out")
    recipe = _recipe_of(model) if weights == "trained" else None
    beside = os.path.dirname(os.path.abspath(path))
    with tempfile.TemporaryDirectory(prefix=".narrowgauge-export-", dir=beside) as above:
        folder = os.path.join(above, _stem(path))  # as which a GGUF file names the model
        _write(model, tokenizer, folder)
        export_folder(folder, "", path, to, type, recipe, keep, block, share_scales, 0)


def _stem(path: str) -> str:
    return os.path.splitext(os.path.basename(os.path.abspath(path)))[0] or "model"


def _name(model: nn.Module) -> str:
    return model.__class__.__name__


def _recipe_of(model: nn.Module) -> str:
    """Its TOML."""
    if not any(isinstance(module, Linear) for module in model.modules()):
        raise Error('"trained", but no layer is converted', 'weights="values"', key="weights")
    return engines_of(model)[0].recipe.resolved


def _write(model: Any, tokenizer: Any, folder: str) -> None:
    """A model of transformers as that does, without what convert added."""
    state = {name: value for name, value in model.state_dict().items() if ".ng_" not in name}
    model.save_pretrained(folder, state_dict={k: _plain(v) for k, v in state.items()})
    if tokenizer is None:
        return
    if hasattr(tokenizer, "save_pretrained"):
        tokenizer.save_pretrained(folder)
        return
    given = path_text(tokenizer, "tokenizer")
    if not os.path.isdir(given):
        raise Error(given, "a tokenizer of transformers, or the folder of one", key="tokenizer")
    for name in os.listdir(given):
        if not os.path.exists(os.path.join(folder, name)) and _is_of_tokenizer(name):
            shutil.copy(os.path.join(given, name), folder)


def _plain(value: torch.Tensor) -> torch.Tensor:
    return value.detach().to("cpu")


def _is_of_tokenizer(name: str) -> bool:
    return name.endswith((".json", ".jinja", ".model", ".txt")) and not name.startswith("model.")
