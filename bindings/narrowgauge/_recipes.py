"""Recipes: in which numbers each product, state and message of training is."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from . import _core
from ._paths import path_text
from ._toml import setting_lines, value_text


class Recipe:
    """A recipe by name or path, with keys of it changed.

    overrides: {"linear.fprop.input.rounding": "stochastic", ...}; dicts for what lies below a key.
    """

    def __init__(
        self, name: str | os.PathLike[str], overrides: Mapping[str, Any] | None = None
    ) -> None:
        #: what a run file may say for it: a name, a path, or the text of a changed recipe
        self.words = path_text(name)
        self._core = _core.load_recipe(self.words)
        if overrides:
            lines = setting_lines({"name": f"{self._core.name}-changed", **overrides})
            self.words = f"inherit = {value_text(self.words)}\n" + "\n".join(lines) + "\n"
            self._core = _core.load_recipe(self.words)

    @property
    def name(self) -> str:
        return self._core.name

    @property
    def resolved(self) -> str:
        """Every key written out, as TOML."""
        return self._core.resolved

    @property
    def hash(self) -> str:
        """16 hex digits; equal recipes have equal ones, whatever they are called."""
        return self._core.hash

    @property
    def warnings(self) -> list[str]:
        """What to beware of."""
        return self._core.warnings

    def __repr__(self) -> str:
        return f"<narrowgauge.Recipe {self.name} {self.hash}>"


def recipes() -> list[str]:
    """Names of all recipes."""
    return _core.recipe_names()


def words_of(recipe: str | os.PathLike[str] | Recipe | None) -> str:
    """What the C++ side takes for a recipe; empty for None."""
    if recipe is None:
        return ""
    return recipe.words if isinstance(recipe, Recipe) else path_text(recipe, "recipe")


_core.set_recipe_folder(str(Path(__file__).parent / "recipes"))
