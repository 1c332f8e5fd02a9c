"""What the layers of a conversion share: recipe, seed, the clock of draws, a step's memory."""

from __future__ import annotations

from typing import Any

import torch

from .. import _core
from .._devices import KERNELS, kernels_of


_CPU = torch.device("cpu")


class Engine:
    """One model in one recipe.

    clock: int64 (2): the step, and the forward pass with gradients in it, -1 before the first. A
    tensor, so that compiled graphs read it and need no guard.
    """

    def __init__(
        self, recipe: _core.Recipe, seed: int, step: int, depth: int, steps: int | None, kind: str
    ) -> None:
        self.recipe = recipe
        self.words = recipe.name  #: as the program takes it
        self.seed = seed
        self.depth = depth  #: blocks of the model, for overrides
        self.steps = steps  #: of the training, of which phases are shares; None: the first holds
        self.kind = kind  #: "auto", "kernels" or "torch"
        self.is_pass = True  #: the newest call of the model has gradients: passes may be repeated
        self.clock = torch.tensor([step, -1], dtype=torch.int64)
        self._runs: dict[tuple[str, int], _core.LayerRun] = {}  # by backend and device
        self._threads = 0

    def takes_kernels(self, device: torch.device) -> bool:
        """Whether tensors there go to the kernels, else through torch operations."""
        return self.kind == "kernels" or (self.kind == "auto" and device.type in KERNELS)

    @property
    def step(self) -> int:
        return int(self.clock[0])

    @step.setter
    def step(self, step: int) -> None:
        self.clock[0], self.clock[1] = step, -1

    @property
    def phase(self) -> int:
        """Of the recipe, in this step."""
        return self.recipe.phase_at(self.step / self.steps) if self.steps else 0

    def run(self, device: torch.device = _CPU) -> _core.LayerRun:
        """Where layers of a device compute; of the CPU on as many threads as torch may use."""
        threads = torch.get_num_threads()
        if self._threads != threads:
            self._runs.pop(("cpu", 0), None)
            self._threads = threads
        at = kernels_of(device)
        if at not in self._runs:
            self._runs[at] = _core.LayerRun(self.seed, threads, *at)
        return self._runs[at]

    def __getstate__(self) -> dict[str, Any]:
        return {
            **self.__dict__,
            "recipe": (self.recipe.name, self.recipe.resolved),
            "_runs": {},
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        name, text = state["recipe"]
        self.__dict__.update(state)
        self.recipe = _core.load_recipe(f"name = '{name}'\n" + _without_name(text))


def _without_name(toml: str) -> str:
    return "\n".join(line for line in toml.split("\n") if not line.startswith("name =")) + "\n"
