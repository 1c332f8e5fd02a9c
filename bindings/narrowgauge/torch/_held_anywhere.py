"""One parameter of an optimizer in torch operations alone: any device."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .. import _core
from .._errors import Error
from ._held import NUMBERS, Held, Plan, named
from ._operations import Key, Kept, Numbers, UpdateForm
from ._operations.stored import bytes_of, load, of_bytes, zeros
from ._operations.update import BEYOND, put, step as update_step, taken
from ._parameters import Place
from ._update_form import update_form_of


class HeldAnywhere(Held):
    """Storage and states in tensors on the parameter's device; no value comes back to the host,
    but the norms that a precision-aware step is sought by.

    A value that torch has a type of, and that nothing lies beside, is the parameter's own.
    settings: of the parameter's group, and heads.
    """

    def __init__(
        self, plan: Plan, parameter: Tensor, place: Place, settings: dict[str, Any]
    ) -> None:
        super().__init__(parameter, place)
        try:
            self._core = _core.UpdateForm(
                plan.recipe, place.name, self.shape(), place.is_vector, place.blocks,
                self.settings_of(settings),
            )
        except Error as error:
            raise named(error, self) from None
        said = self._core.form()
        self._form, self._seed, self._device = update_form_of(said), plan.seed, parameter.device
        self.require_bf16(said["fits_bf16"], plan.recipe)
        require_device(self, self._device, self._form)
        self._state = put(self.rows(parameter), self._form)
        for part, of in self._form.tensors.items():
            if part not in self._state:
                self._state[part] = zeros(of, self._device)
        self._beyond = torch.zeros((), dtype=torch.int64, device=self._device)
        if place.may_be_bf16 and said["fits_bf16"] and parameter.dtype != torch.bfloat16:
            self.become_bf16()
        value = self._form.tensors["value"]
        is_alone = not {"master", "carry"} & self._form.tensors.keys()
        self._is_own = is_alone and value.is_plain and value.dtype == self.parameter.dtype
        self.show()

    def step(self, grad: Tensor, lr: float, step: int, settings: dict[str, Any]) -> str:
        self.require(grad, "has a gradient that is")
        said = self._core.numbers(lr, step, {key: settings[key] for key in NUMBERS})
        key = Key(self._seed, self.place.id, step, 0)
        self._state, beyond = update_step(
            self._form, self._current(), self.rows(grad), Numbers(**said), key
        )
        self._beyond = torch.where(self._beyond == 0, beyond, self._beyond)
        self.show()
        return ""

    def beyond(self) -> str:
        part = BEYOND[int(self._beyond)]
        self._beyond.zero_()
        if part == "weight":
            part = "master" if "master" in self._form.tensors else "value"
        return self._form.tensors[part].states[0].rpartition(".")[0] if part else ""

    def state(self) -> dict[str, Tensor]:
        found: dict[str, Tensor] = {}
        now = self._current()
        for part, of in self._form.tensors.items():
            found.update(bytes_of(now[part], of))
        return found

    def put_state(self, state: dict[str, Tensor]) -> None:
        now = self._current()
        wanted = {
            name: given.numel()
            for part, of in self._form.tensors.items()
            for name, given in bytes_of(now[part], of).items()
        }
        self.require_states(state, wanted)
        self._state = {
            part: of_bytes(state, of, now[part]) for part, of in self._form.tensors.items()
        }

    def show(self) -> None:
        values = load(self._state["value"], self._form.tensors["value"])
        with torch.no_grad():
            self.parameter.copy_(self.shaped(values))
        if self._is_own:
            del self._state["value"]

    def _current(self) -> dict[str, Kept]:
        """What persists, with the values that the parameter has now."""
        if self.parameter.device != self._device:
            raise self.refuse(
                f"is on {self.parameter.device}, but its states are on {self._device}",
                "narrowgauge.torch.optimizer after model.to(...)",
            )
        if not self._is_own:
            return taken(self.rows(self.parameter), self._state, self._form)
        own = self.parameter.detach()
        own = (own.t() if self.place.turned else own).reshape(self.shape())
        return {
            part: Kept(own, None, None) if part == "value" else self._state[part]
            for part in self._form.tensors
        }


def require_device(held: Held, device: torch.device, form: UpdateForm) -> None:
    """Raises Error for a device that cannot do what the recipe asks of the parameter."""
    if device.type == "meta":
        raise held.refuse("is on meta, where nothing is computed", "model.to_empty(device=...)")
    if device.type == "mps" and form.needs_fp64:
        what = form.rule if form.rule == "adam_mini" else form.update
        raise held.refuse(f"is on {device}, which has no FP64 for {what}", "the CPU, or CUDA")
