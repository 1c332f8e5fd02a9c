"""One parameter of an optimizer: its storage and states in the core, its values in torch."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .. import _core
from .._errors import Error
from ._parameters import Place
from ._sight import sample, version

#: Settings of a group that may change from step to step.
_NUMBERS = ("beta1", "beta2", "eps", "weight_decay")


class Held:
    """A parameter whose values are those that the recipe's storage holds, from now on.

    runs: the memory that the optimizer's parameters share. settings: of its group, and heads.
    """

    def __init__(
        self, runs: _core.UpdateRuns, recipe: _core.Recipe, parameter: Tensor, place: Place,
        settings: dict[str, Any],
    ) -> None:
        self.parameter, self.place = parameter, place
        self._numbers = {key: settings[key] for key in _NUMBERS}
        if place.is_learned:
            settings = {**settings, "decays_vectors": True}
        self._require(parameter, "is")
        try:
            self._core = _core.ParameterUpdate(
                runs, recipe, place.name, self._shape(), place.is_vector, place.id,
                place.blocks, settings,
            )
        except Error as error:
            raise self.refuse(
                f"{error.key}: {error.problem}" if error.key else error.problem, error.remedy
            ) from None
        if parameter.dtype == torch.bfloat16 and not self._core.fits_bf16:
            raise self.refuse(
                f"is torch.bfloat16, which does not hold what {recipe.name} stores",
                "model.float(), or a recipe that stores weights in BF16",
            )
        self._seen: tuple[int, int] | None = None
        self._core.put(self._rows(parameter))
        if place.may_be_bf16 and self._core.fits_bf16 and parameter.dtype != torch.bfloat16:
            self._become_bf16()
        self.show()

    def refuse(self, problem: str, remedy: str) -> Error:
        """An error that names the parameter."""
        return Error(problem, remedy, place=self.place.shown)

    def step(self, grad: Tensor, lr: float, step: int, settings: dict[str, Any]) -> str:
        """One update. Returns the state that went beyond its format; "": none."""
        self._require(grad, "has a gradient that is")
        numbers = {key: settings[key] for key in _NUMBERS}
        if numbers != self._numbers:
            self._core.set(**numbers)
            self._numbers = numbers
        self._take_changes()
        beyond = self._core.step(lr, step, self._rows(grad))
        self.show()
        return beyond

    # States --------------------------------------------------------------------------------------

    def state(self) -> dict[str, Tensor]:
        """A copy of every byte that persists, by what it is: "moment1.float32"."""
        self._take_changes()
        found = {}
        for index, (name, size) in enumerate(self._core.states()):
            found[name] = torch.empty(size, dtype=torch.uint8)
            self._core.get_state(index, found[name])
        return found

    def put_state(self, state: dict[str, Tensor]) -> None:
        """What state() gave. Where the parameter has other values than then, those count."""
        wanted = dict(self._core.states())
        given = {name: tensor.numel() for name, tensor in state.items()}
        for name in (*wanted, *given):
            if wanted.get(name) != given.get(name):
                raise Error(
                    f"{given.get(name, 'no')} bytes where {wanted.get(name, 'none')} belong",
                    "a state_dict of the same recipe and model", place=self.place.shown, key=name,
                )
        for index, name in enumerate(wanted):
            self._core.put_state(index, state[name].to("cpu", torch.uint8).contiguous())
        self._seen = None

    # Values --------------------------------------------------------------------------------------

    def _require(self, tensor: Tensor, claim: str) -> None:
        if tensor.layout != torch.strided:
            raise self.refuse(f"{claim} {tensor.layout}", "dense tensors: sparse=False")
        if tensor.device.type != "cpu":
            raise self.refuse(f"{claim} on {tensor.device}", 'a model on the CPU: model.to("cpu")')
        if tensor.dtype not in (torch.float32, torch.bfloat16):
            raise self.refuse(f"{claim} {tensor.dtype}", "torch.float32 or torch.bfloat16")
        if tensor.numel() == 0:
            raise self.refuse(f"{claim} empty", "a parameter with values")
        if tensor is self.parameter and torch._debug_has_internal_overlap(tensor) == 1:
            raise self.refuse("has values that share memory", "a parameter of its own: .clone()")

    def _shape(self) -> tuple[int, int]:
        """(1, n) of vectors; (out, in) of matrices; of more dimensions the first one's rows."""
        shape = self.parameter.shape
        if len(shape) < 2:
            return 1, self.parameter.numel()
        rows = shape[1] if self.place.turned else shape[0]
        return rows, self.parameter.numel() // rows

    def _rows(self, tensor: Tensor) -> Tensor:
        """As the core takes it: FP32, (r, c), no copy where it is that."""
        tensor = tensor.detach()
        tensor = tensor.t() if self.place.turned else tensor
        return tensor.reshape(self._shape()).to(torch.float32).contiguous()

    def _stored(self) -> Tensor:
        """What the storage holds, in the parameter's shape."""
        values = torch.empty(self._shape())
        self._core.get(values)
        return values.t() if self.place.turned else values.reshape(self.parameter.shape)

    def _become_bf16(self) -> None:
        grad, self.parameter.grad = self.parameter.grad, None
        self.parameter.data = self.parameter.data.to(torch.bfloat16)
        self.parameter.grad = None if grad is None else grad.to(torch.bfloat16)

    def show(self) -> None:
        """The parameter has the values that the storage holds."""
        with torch.no_grad():
            self.parameter.copy_(self._stored())
        self._seen = self._sight()

    def _sight(self) -> tuple[int, int]:
        return version(self.parameter), sample(self.parameter)

    def _take_changes(self) -> None:
        """Values that somebody else wrote become those of the storage; moments stay."""
        if self._seen == self._sight():
            return
        if not torch.equal(self._stored().to(self.parameter.dtype), self.parameter.detach()):
            self._core.put(self._rows(self.parameter))
        self._seen = self._sight()
