"""A recipe as convert takes it, and what of it is not done by layers."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from typing import Any

from .. import _core
from .._arguments import is_a
from .._paths import path_text
from .._recipes import Recipe
from .._toml import setting_lines

#: A recipe: its name, a TOML file, a dict of its keys, or a Recipe.
AnyRecipe = str | os.PathLike[str] | Mapping[str, Any] | Recipe

#: Keys that say something of weights between updates, of updates, of gradients between ranks.
_UPDATE = ("weights.storage", "weights.master", "weights.update", "optimizer.kind",
           "optimizer.moment1", "optimizer.moment2", "gradient.accumulate")  # fmt: skip
_WIRE = ("gradient.communicate", "gradient.reduce", "gradient.auto_scale")
_BETWEEN = ("attention.probabilities", "saved.norm", "saved.activation", "saved.attention")
_RANKS = ("gradient.shard", "communication.activations", "communication.weights",
          "communication.sums")  # fmt: skip


def recipe_words(recipe: AnyRecipe) -> str:
    """As the program takes it: a name, a path, or TOML. Raises Error where it is none of these."""
    if isinstance(recipe, Recipe):
        return recipe.words
    if isinstance(recipe, Mapping):
        return "\n".join(setting_lines({"name": "given", **recipe})) + "\n"
    is_a(recipe, (str, os.PathLike), "a name, a TOML file, a dict of keys or a Recipe", "recipe")
    return path_text(recipe)


def core_recipe(recipe: AnyRecipe) -> _core.Recipe:
    """Raises Error where it is none."""
    return recipe._core if isinstance(recipe, Recipe) else _core.load_recipe(recipe_words(recipe))


def left_to_others(recipe: _core.Recipe) -> list[str]:
    """Of a recipe what layers do not do, with who does."""
    said, plain = _settings(recipe), _settings(_core.load_recipe("fp32"))
    lines = []
    for keys, whose in (
        (_UPDATE, "those of the optimizer, not of layers"),
        (_WIRE, "those between ranks, not of layers"),
        (_BETWEEN, "those of norms, activations and attention, which PyTorch computes"),
        (_RANKS, "of the trainer's ranks alone"),
    ):
        changed = [f"{key} = {_text(said[key])}" for key in keys if said[key] != plain[key]]
        if changed:
            lines.append(f"{', '.join(changed)}: {whose}")
    return lines


def has_auto_scales(recipe: _core.Recipe) -> bool:
    """Whether gradients of weights in blocks have scales of their own between ranks."""
    return bool(_settings(recipe)["gradient.auto_scale"])


def _settings(recipe: _core.Recipe) -> dict[str, Any]:
    """By dotted key, of the recipe alone: without phases and overrides."""
    found: dict[str, Any] = {}
    for name, table in tomllib.loads(recipe.resolved).items():
        if isinstance(table, Mapping):
            found.update(_flat(name, table))
        else:
            found[name] = table
    return found


def _flat(name: str, table: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{name}.{key}": value for key, value in table.items()}


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return str(value.get("format", value))
    return str(value).lower() if isinstance(value, bool) else str(value)
