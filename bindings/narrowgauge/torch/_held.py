"""One parameter of an optimizer: what persists of it, its values in torch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .. import _core
from .._devices import KERNELS, kernels_of, stream_of
from .._errors import Error
from ._parameters import Place
from ._sight import sample, version

#: Settings of a group that may change from step to step.
NUMBERS = ("beta1", "beta2", "eps", "weight_decay")


class UpdateMemory:
    """Where the kernels of each device keep what persists."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._runs: dict[tuple[str, int], _core.UpdateRuns] = {}

    def on(self, device: torch.device) -> _core.UpdateRuns:
        at = kernels_of(device)
        if at not in self._runs:
            self._runs[at] = _core.UpdateRuns(self._seed, torch.get_num_threads(), *at)
        return self._runs[at]


class Plan(NamedTuple):
    """What the parameters of an optimizer share."""

    recipe: _core.Recipe
    seed: int
    runs: UpdateMemory  #: of the kernels
    engine: str  #: "auto", "kernels" or "torch"


class Held(ABC):
    """A parameter whose values are those that the recipe's storage holds, from now on."""

    def __init__(self, parameter: Tensor, place: Place) -> None:
        self.parameter, self.place = parameter, place
        self.require(parameter, "is")

    def refuse(self, problem: str, remedy: str) -> Error:
        """An error that names the parameter."""
        return Error(problem, remedy, place=self.place.shown)

    @abstractmethod
    def step(self, grad: Tensor, lr: float, step: int, settings: dict[str, Any]) -> str:
        """One update. Returns the state that went beyond its format, where that is known by now;
        "": none."""

    @abstractmethod
    def beyond(self) -> str:
        """What went beyond its format and no step has said."""

    @abstractmethod
    def state(self) -> dict[str, Tensor]:
        """A copy of every byte that persists, by what it is: "moment1.float32"."""

    @abstractmethod
    def put_state(self, state: dict[str, Tensor]) -> None:
        """What state() gave, of either engine. Where the parameter has other values than then,
        those count."""

    @abstractmethod
    def show(self) -> None:
        """The parameter has the values that the storage holds."""

    # Shared ---------------------------------------------------------------------------------------

    def require(self, tensor: Tensor, claim: str) -> None:
        """Raises Error for what no engine takes."""
        if hasattr(tensor, "to_local"):  # a DTensor, of which a rank has a part
            raise self.refuse(f"{claim} divided among ranks", "torch.optim, or whole parameters: "
                              "narrowgauge.torch.gradient_hook")
        if tensor.layout != torch.strided:
            raise self.refuse(f"{claim} {tensor.layout}", "dense tensors: sparse=False")
        if tensor.dtype not in (torch.float32, torch.bfloat16):
            raise self.refuse(f"{claim} {tensor.dtype}", "torch.float32 or torch.bfloat16")
        if tensor.numel() == 0:
            raise self.refuse(f"{claim} empty", "a parameter with values")
        if tensor is self.parameter and torch._debug_has_internal_overlap(tensor) == 1:
            raise self.refuse("has values that share memory", "a parameter of its own: .clone()")

    def require_bf16(self, fits: bool, recipe: _core.Recipe) -> None:
        """Raises Error where the parameter is BF16, and that does not hold what is stored."""
        if self.parameter.dtype == torch.bfloat16 and not fits:
            raise self.refuse(
                f"is torch.bfloat16, which does not hold what {recipe.name} stores",
                "model.float(), or a recipe that stores weights in BF16",
            )

    def require_states(self, state: dict[str, Tensor], wanted: dict[str, int]) -> None:
        """Raises Error where they are no such bytes."""
        given = {name: tensor.numel() for name, tensor in state.items()}
        for name in (*wanted, *given):
            if wanted.get(name) != given.get(name):
                raise Error(
                    f"{given.get(name, 'no')} bytes where {wanted.get(name, 'none')} belong",
                    "a state_dict of the same recipe and model", place=self.place.shown, key=name,
                )

    def settings_of(self, settings: dict[str, Any]) -> dict[str, Any]:
        """Of the group, as the core takes them."""
        return {**settings, "decays_vectors": True} if self.place.is_learned else settings

    def shape(self) -> tuple[int, int]:
        """(1, n) of vectors; (out, in) of matrices; of more dimensions the first one's rows."""
        shape = self.parameter.shape
        if len(shape) < 2:
            return 1, self.parameter.numel()
        rows = shape[1] if self.place.turned else shape[0]
        return rows, self.parameter.numel() // rows

    def rows(self, tensor: Tensor) -> Tensor:
        """FP32, (r, c), no copy where it is that."""
        tensor = tensor.detach()
        tensor = tensor.t() if self.place.turned else tensor
        return tensor.reshape(self.shape()).to(torch.float32).contiguous()

    def shaped(self, rows: Tensor) -> Tensor:
        """Such rows in the parameter's shape."""
        return rows.t() if self.place.turned else rows.reshape(self.parameter.shape)

    def become_bf16(self) -> None:
        if self.place.is_hooked:
            raise self.refuse(
                "is stored in BF16, and DistributedDataParallel waits for gradients in FP32",
                "the optimizer of model.module before DistributedDataParallel(model)",
            )
        grad, self.parameter.grad = self.parameter.grad, None
        self.parameter.data = self.parameter.data.to(torch.bfloat16)
        self.parameter.grad = None if grad is None else grad.to(torch.bfloat16)


class HeldByKernels(Held):
    """Storage and states in the core, which computes.

    settings: of the parameter's group, and heads.
    """

    def __init__(
        self, plan: Plan, parameter: Tensor, place: Place, settings: dict[str, Any]
    ) -> None:
        super().__init__(parameter, place)
        self._numbers = {key: settings[key] for key in NUMBERS}
        try:
            self._core = _core.ParameterUpdate(
                plan.runs.on(parameter.device), plan.recipe, place.name, self.shape(),
                place.is_vector, place.id, place.blocks, self.settings_of(settings),
            )
        except Error as error:
            raise named(error, self) from None
        self.require_bf16(self._core.fits_bf16, plan.recipe)
        self._seen: tuple[int, int] | None = None
        self._core.use_stream(stream_of(parameter.device))
        self._core.put(self.rows(parameter))
        if place.may_be_bf16 and self._core.fits_bf16 and parameter.dtype != torch.bfloat16:
            self.become_bf16()
        self.show()

    def require(self, tensor: Tensor, claim: str) -> None:
        super().require(tensor, claim)
        if tensor.device.type != "cpu":
            raise self.refuse(f"{claim} on {tensor.device}", 'the CPU, or engine="auto"')

    def step(self, grad: Tensor, lr: float, step: int, settings: dict[str, Any]) -> str:
        self.require(grad, "has a gradient that is")
        self._follow(settings)
        self._take_changes()
        beyond = self._core.step(lr, step, self.rows(grad))
        self.show()
        return beyond

    def _follow(self, settings: dict[str, Any]) -> None:
        """The group's constants."""
        numbers = {key: settings[key] for key in NUMBERS}
        if numbers != self._numbers:
            self._core.set(**numbers)
            self._numbers = numbers

    def beyond(self) -> str:
        return ""

    def state(self) -> dict[str, Tensor]:
        self._take_changes()
        found = {}
        for index, (name, size) in enumerate(self._core.states()):
            found[name] = torch.empty(size, dtype=torch.uint8)
            self._core.get_state(index, found[name])
        return found

    def put_state(self, state: dict[str, Tensor]) -> None:
        wanted = dict(self._core.states())
        self.require_states(state, wanted)
        for index, name in enumerate(wanted):
            self._core.put_state(index, state[name].to("cpu", torch.uint8).contiguous())
        self._seen = None

    def show(self) -> None:
        with torch.no_grad():
            self.parameter.copy_(self._stored())
        self._seen = self._sight()

    def _stored(self) -> Tensor:
        """What the storage holds, in the parameter's shape."""
        values = torch.empty(self.shape(), device=self.parameter.device)
        self._core.get(values)
        return self.shaped(values)

    def _sight(self) -> tuple[int, int]:
        return version(self.parameter), sample(self.parameter)

    def _take_changes(self) -> None:
        """Values that somebody else wrote become those of the storage; moments stay."""
        if self._seen == self._sight():
            return
        if not torch.equal(self._stored().to(self.parameter.dtype), self.parameter.detach()):
            self._core.put(self.rows(self.parameter))
        self._seen = self._sight()


class HeldOnDevice(HeldByKernels):
    """The same of a parameter on a device with kernels: no value comes back to the host in a step.

    That somebody else wrote values is seen by torch's version of the parameter alone.
    """

    def require(self, tensor: Tensor, claim: str) -> None:
        Held.require(self, tensor, claim)
        if tensor.device != self.parameter.device or tensor.device.type not in KERNELS:
            raise self.refuse(
                f"{claim} on {tensor.device}, but its states are on {self.parameter.device}",
                "narrowgauge.torch.optimizer after model.to(...)",
            )

    def step(self, grad: Tensor, lr: float, step: int, settings: dict[str, Any]) -> str:
        self.require(grad, "has a gradient that is")
        self._core.use_stream(stream_of(grad.device))
        self._follow(settings)
        self._take_changes()
        self._core.step_there(lr, step, self.rows(grad))
        self.show()
        return ""

    def beyond(self) -> str:
        return self._core.beyond()

    def _sight(self) -> tuple[int, int]:
        return version(self.parameter), self.parameter.data_ptr()


def named(error: Error, held: Held) -> Error:
    """The core's, which knows no parameter of torch's."""
    problem = f"{error.key}: {error.problem}" if error.key else error.problem
    return held.refuse(problem, error.remedy)
