"""Checkpoints of the trainer, out of models of PyTorch and into them."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from .. import _core
from .._errors import Error
from .._paths import path_text
from ._family import config_json, require_family
from ._held import Held
from ._layers import Linear
from ._optimizer import Optimizer
from ._steps import STEP_KEY, engines_of, layers_of, move_to

Path = str | os.PathLike[str]

#: Of gradients between ranks.
_OF_WIRE = "gradient_scale"


def save_checkpoint(
    folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer, *, keep: int = 2
) -> str:
    """Writes folder/checkpoints/step-NNNNNNNN as the trainer writes its own: weights, masters,
    carries, moments, delayed scales, every bit. It appears whole or not at all. Returns its path.

    folder: of a run, of which the trainer goes on from there with `train --resume`: its text, batch
        and settings stay what they are; else a folder for this training, made where missing.
    model, optimizer: of narrowgauge.torch.convert and narrowgauge.torch.optimizer, in one recipe; a
        GPT-2, Llama, Mistral, Qwen2 or Qwen3 of transformers.
    keep: how many checkpoints stay; older ones go.

    Takes what weights and states take in memory once more while it works. Auto scales of gradients
    between ranks are those of the checkpoint that was loaded, else they begin anew
    (GradientHook.state_dict has its own). Raises Error where a value is not
    finite, where the folder has a later step or is of another model, recipe or seed; what is there
    is then as it was.
    """
    if keep < 1:
        raise Error(str(keep), "at least 1", key="keep")
    state = _State(model, optimizer)
    for index, of in state.places():
        state.core.put(index, of)
    return state.core.save(path_text(folder, "folder"), state.step, keep)


def load_checkpoint(folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """Goes on from a checkpoint that save_checkpoint or the trainer wrote, every bit of it. Returns
    its step, of which draws are from now on.

    folder: of a run, whose newest whole checkpoint counts, or one of its checkpoints.
    model, optimizer: as for save_checkpoint.

    Raises Error where it is of another model, recipe or seed, or damaged; the model is then as it
    was.
    """
    state = _State(model, optimizer)
    step, notes = state.core.load(path_text(folder, "folder"))
    for note in notes:
        warnings.warn(note, stacklevel=2)
    move_to(model, max(step - 1, 0))  # whose phase the state is of
    state.take()
    move_to(model, step)
    state.optimizer.param_groups[0][STEP_KEY] = step
    return step


class _State:
    """What persists of a model and its optimizer, beside the trainer's place for it."""

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        if not isinstance(optimizer, Optimizer):
            raise Error(f"is {type(optimizer).__name__}", "narrowgauge.torch.optimizer(...)",
                        key="optimizer")
        engine = engines_of(model)[0]
        if engine.recipe.hash != optimizer.recipe.hash:
            raise Error(
                f"is of {optimizer.recipe.name}, but the model is converted to "
                f"{engine.recipe.name}", "one recipe for both", key="optimizer",
            )
        require_family(model, engine.recipe)
        self.model, self.optimizer, self.step = model, optimizer, engine.step
        self._layers = {layer.ng_state.name: layer for layer in layers_of(model).values()}
        self._held = {held.place.name: held for held in optimizer.held()}
        settings = optimizer.settings()
        text = config_json(model)
        self.core = _core.TrainedState(
            text, engine.recipe, engine.seed, settings, torch.get_num_threads()
        )

    def places(self) -> Iterator[tuple[int, Tensor]]:
        """Of each tensor of a checkpoint, its bytes here."""
        states: dict[str, dict[str, Tensor]] = {}
        for index, (owner, name, size) in enumerate(self.core.rows()):
            if name.startswith(_OF_WIRE):
                if owner in self.optimizer.wire:
                    yield index, self.optimizer.wire[owner]
                continue
            if owner in self._layers:
                yield index, _bytes(self._scales(owner, name))
                continue
            held = self._held_of(owner)
            states = states if owner in states else {owner: held.state()}
            yield index, states[owner][name]

    def take(self) -> None:
        """What the core holds becomes the model's and the optimizer's."""
        states: dict[str, dict[str, Tensor]] = {}
        for index, (owner, name, size) in enumerate(self.core.rows()):
            given = torch.empty(size, dtype=torch.uint8)
            self.core.get(index, given)
            if name.startswith(_OF_WIRE):
                self.optimizer.wire[owner] = given
            elif owner in self._layers:
                self._scales(owner, name).copy_(given.view(torch.float32))
            else:
                states.setdefault(owner, {})[name] = given
        for owner, state in states.items():
            held = self._held_of(owner)
            held.put_state(state)
            held.show()

    def _held_of(self, owner: str) -> Held:
        if owner not in self._held:
            raise Error(f"{owner} is in none of its groups", "all parameters of the model",
                        key="optimizer")
        return self._held[owner]

    def _scales(self, layer: str, name: str) -> Tensor:
        """A part of a layer's buffer: of "scale.fprop.input.history.float32"."""
        found: Linear = self._layers[layer]
        at = 0
        for role, history in zip(_ROLES, found.ng_state.core().histories):
            if history and name.startswith(f"scale.{role}."):
                is_scale = name.startswith(f"scale.{role}.encode")
                return found.ng_scales[at : at + 1] if is_scale else (
                    found.ng_scales[at + 1 : at + 1 + history]
                )
            at += 1 + history if history else 0
        raise Error(f"{layer} has no {name}", "", key="model")


_ROLES = ("fprop.input", "fprop.weight", "dgrad.grad", "dgrad.weight", "wgrad.grad", "wgrad.input")


def _bytes(values: Tensor) -> Tensor:
    return values.detach().to("cpu", torch.float32).contiguous().view(torch.uint8)
