"""Checkpoints of the trainer, out of models of PyTorch and into them."""

from __future__ import annotations

import os
import warnings
from typing import NamedTuple

import torch
from torch import Tensor, nn

from .. import _core
from .._arguments import is_a, whole
from .._errors import ArgumentError, Error
from .._paths import path_text
from ._family import require_family
from ._gradients import GradientHook
from ._held import Held
from ._operations.linear import ROLES
from ._optimizer import Optimizer
from ._steps import STEP_KEY, engines_of, layers_of, move_to

Path = str | os.PathLike[str]

#: Of gradients between ranks.
_OF_WIRE = ("gradient_scale.", "gradient_good_steps.")


def save_checkpoint(
    folder: Path,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    *,
    keep: int = 2,
    hook: GradientHook | None = None,
) -> str:
    """Writes folder/checkpoints/step-NNNNNNNN as the trainer writes its own: weights, masters,
    carries, moments, delayed scales, every bit. It appears whole or not at all. Returns its path.

    folder: of a run, of which the trainer goes on from there with `train --resume`: its text, batch
        and settings stay what they are; else a folder for this training, made where missing.
    model, optimizer: of narrowgauge.torch.convert and narrowgauge.torch.optimizer, in one recipe; a
        GPT-2, Llama, Mistral, Qwen2 or Qwen3 of transformers.
    keep: how many checkpoints stay; older ones go.
    hook: of narrowgauge.torch.gradient_hook, whose auto scales are saved too; without it they are
        those of the checkpoint that was loaded, else they begin anew. One rank saves for all.

    Takes what weights and states take in memory once more while it works. Raises Error where a
    value is not finite, where the folder has a later step or is of another model, recipe or seed;
    what is there is then as it was.
    """
    keep = whole(keep, "keep", 1, (1 << 31) - 1)
    state = _State(model, optimizer, hook)
    if hook is not None:
        state.optimizer.wire = {name: _bytes(of) for name, of in hook.rows().items()}
    state.put()
    return state.core.save(path_text(folder, "folder"), state.step, keep)


def load_checkpoint(
    folder: Path,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    *,
    hook: GradientHook | None = None,
) -> int:
    """Goes on from a checkpoint that save_checkpoint or the trainer wrote, every bit of it. Returns
    its step, of which draws are from now on.

    folder: of a run, whose newest whole checkpoint counts, or one of its checkpoints.
    model, optimizer: as for save_checkpoint. hook: its step and auto scales go on there too.

    Raises Error where it is of another model, recipe or seed, or damaged; the model is then as it
    was.
    """
    state = _State(model, optimizer, hook)
    step, notes = state.core.load(path_text(folder, "folder"))
    for note in notes:
        warnings.warn(note, stacklevel=2)
    move_to(model, max(step - 1, 0))  # whose phase the state is of
    state.take()
    move_to(model, step)
    state.optimizer.param_groups[0][STEP_KEY] = step
    if hook is not None:
        wire = state.optimizer.wire
        hook.go_on(step, {name: of.view(torch.float32) for name, of in wire.items()})
    return step


class _Row(NamedTuple):
    """A tensor of a checkpoint: owner "blocks.0.attn.q.weight", name "moment1.float32"."""

    place: int  #: in the core
    owner: str
    name: str
    size: int  #: bytes

    @property
    def key(self) -> tuple[str, str]:
        return self.owner, self.name


class _State:
    """What persists of a model and its optimizer, beside the trainer's place for it."""

    def __init__(
        self, model: nn.Module, optimizer: torch.optim.Optimizer, hook: GradientHook | None
    ) -> None:
        if not isinstance(optimizer, Optimizer):
            raise ArgumentError(
                f"is {type(optimizer).__name__}", "narrowgauge.torch.optimizer(...)",
                key="optimizer",
            )
        if hook is not None:
            is_a(hook, GradientHook, "narrowgauge.torch.gradient_hook(ddp, recipe)", "hook")
        engine = engines_of(model)[0]
        if engine.recipe.hash != optimizer.recipe.hash:
            raise Error(
                f"is of {optimizer.recipe.name}, but the model is converted to "
                f"{engine.recipe.name}", "one recipe for both", key="optimizer",
            )
        self.optimizer, self.step = optimizer, engine.step
        self.core = _core.TrainedState(
            require_family(model, engine.recipe).config, engine.recipe, engine.seed,
            optimizer.settings(), torch.get_num_threads(),
        )  # fmt: skip
        self._layers = {layer.ng_state.name: layer for layer in layers_of(model).values()}
        self._wire: list[_Row] = []
        self._scales: list[_Row] = []
        self._held: dict[Held, list[_Row]] = {}
        self._sort({held.place.name: held for held in optimizer.held()})
        if hook is not None and set(hook.rows()) != {row.key for row in self._wire}:
            raise Error(f"has no auto scales of {engine.recipe.name}'s weights in blocks",
                        "gradient_hook(ddp, recipe) of the converted model in its recipe",
                        key="hook")

    def _sort(self, held: dict[str, Held]) -> None:
        """By who has them here."""
        for row in (_Row(place, *of) for place, of in enumerate(self.core.rows())):
            if row.name.startswith(_OF_WIRE):
                self._wire.append(row)
            elif row.owner in self._layers:
                self._scales.append(row)
            elif row.owner in held:
                self._held.setdefault(held[row.owner], []).append(row)
            else:
                raise Error(f"{row.owner} is in none of its groups",
                            "all parameters of the model", key="optimizer")

    def put(self) -> None:
        """What the model and the optimizer hold becomes the core's."""
        for row in self._wire:
            if row.key in self.optimizer.wire:
                self.core.put(row.place, self.optimizer.wire[row.key])
        for row in self._scales:
            self.core.put(row.place, _bytes(self._scale(row)))
        for held, rows in self._held.items():
            state = held.state()
            for row in rows:
                self.core.put(row.place, state[row.name].to("cpu"))
        self.optimizer.warn_of_beyond()

    def take(self) -> None:
        """What the core holds becomes the model's and the optimizer's."""
        for row in self._wire:
            self.optimizer.wire[row.key] = self._given(row)
        for row in self._scales:
            self._scale(row).copy_(self._given(row).view(torch.float32))
        for held, rows in self._held.items():
            held.put_state({row.name: self._given(row) for row in rows})
            held.show()

    def _given(self, row: _Row) -> Tensor:
        given = torch.empty(row.size, dtype=torch.uint8)
        self.core.get(row.place, given)
        return given

    def _scale(self, row: _Row) -> Tensor:
        """A part of a layer's buffer: of "scale.fprop.input.history.float32"."""
        found = self._layers[row.owner]
        at, scales = 0, found.ng_scales
        for role, history in zip(ROLES, found.ng_state.core().histories):
            if scales is not None and history and row.name.startswith(f"scale.{role}."):
                is_scale = row.name.startswith(f"scale.{role}.encode")
                return scales[at : at + 1] if is_scale else scales[at + 1 : at + 1 + history]
            at += 1 + history if history else 0
        raise Error(f"{row.owner} has no {row.name}", "", key="model")


def _bytes(values: Tensor) -> Tensor:
    return values.detach().to("cpu", torch.float32).contiguous().view(torch.uint8)
