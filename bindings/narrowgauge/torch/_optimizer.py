"""Optimizers of a recipe for PyTorch's parameters."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, SupportsIndex

import torch
from torch import Tensor, nn

from .. import _core
from .._arguments import is_a, one_of, real, refusing, shown, whole
from .._devices import KERNELS
from .._errors import ArgumentError, Error
from ._bit_widths import bit_widths_by_decay
from ._engine import Engine
from ._held import Held, HeldByKernels, HeldOnDevice, Plan, UpdateMemory
from ._held_anywhere import HeldAnywhere
from ._names import Names
from ._parameters import given_place, places_of
from ._recipe import AnyRecipe, core_recipe
from ._steps import STEP_KEY, attach, engine_of, move_to

#: A model, its parameters, or groups of them as torch.optim takes them.
Parameters = nn.Module | Iterable[Tensor] | Iterable[dict[str, Any]]

_PARAMETERS = "a model, or parameters of one"

#: Moments of fewer values stay FP32, as the trainer's do.
_LEAST_NARROW = 4096


def optimizer(
    model_or_params: Parameters,
    recipe: AnyRecipe,
    lr: float = 1e-3,
    *,
    betas: tuple[float, float] = (0.9, 0.95),
    eps: float = 1e-8,
    weight_decay: float = 0.1,
    decay_vectors: bool = False,
    model: nn.Module | None = None,
    names: Names | None = None,
    blocks: int | None = None,
    heads: int | None = None,
    kv_heads: int | None = None,
    least_narrow: int = _LEAST_NARROW,
    seed: int | None = None,
    engine: str = "auto",
) -> torch.optim.Optimizer:
    """The optimizer of a recipe (AdamW, Adam-mini, Muon, SGD), with its storage of weights,
    masters, carries and moments: the bits of `narrowgauge update`.

    model_or_params: a model, or parameters of it, or groups of them; a group may have its own lr,
        betas, eps and weight_decay, which count as they are at each step.
    betas: of SGD, the first is the momentum. weight_decay: decoupled, times lr.
    decay_vectors: weight_decay holds for tensors of one dimension too.
    model: whose parameters are given in groups, so that each is what it is in the model. Steps of
        the optimizer are then steps of the model's draws, too.
    names, blocks: as in convert, for a model that is not converted.
    heads, kv_heads: of attention, by which Muon and Adam-mini part the rows of q, k and v; else as
        model.config says, else 1.
    least_narrow: moments of fewer values stay FP32.
    seed: of stochastic rounding; else the model's, else 1.
    engine: "kernels" of this package, which compute on the CPU; "torch": the same bits in torch
        operations, wherever the parameters are; "auto": kernels for parameters of the CPU, torch
        operations for others.

    Weights of converted layers become BF16 parameters where BF16 holds all that the recipe stores.
    Raises Error, naming the parameter, for what cannot be.
    """
    given: list[Any]
    if isinstance(model_or_params, nn.Module):
        if model is not None and model is not model_or_params:
            raise Error("beside another model", "groups of its parameters", key="model")
        model, given = model_or_params, _groups(model_or_params)
        if not given[0]["params"]:
            raise Error("has no parameters", _PARAMETERS, key="model_or_params")
    else:
        is_a(model_or_params, Iterable, _PARAMETERS, "model_or_params")
        with refusing("model_or_params", _PARAMETERS):
            given = list(model_or_params)
    if model is not None:
        is_a(model, nn.Module, "a torch.nn.Module", "model")
    one_of(engine, "engine", "auto", "kernels", "torch")
    is_a(decay_vectors, bool, "True or False", "decay_vectors")
    blocks = None if blocks is None else whole(blocks, "blocks", 1, (1 << 31) - 1)
    seed = None if seed is None else whole(seed, "seed", 0, (1 << 64) - 1)
    heads, kv_heads = _heads(model, heads, kv_heads)
    numbers = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
    _constants(numbers)
    fixed = {"heads": heads, "kv_heads": kv_heads,
             "least_narrow": whole(least_narrow, "least_narrow", 0),
             "decays_vectors": decay_vectors}  # fmt: skip
    return Optimizer(
        given, core_recipe(recipe), numbers, fixed, model, names, blocks, seed, engine
    )


def _held_by(
    kind: str, device: torch.device
) -> type[HeldAnywhere] | type[HeldByKernels]:
    """What holds a parameter there. kind: "auto", "kernels" or "torch"."""
    if kind == "torch" or (kind == "auto" and device.type not in KERNELS):
        return HeldAnywhere
    return HeldByKernels if KERNELS.get(device.type, "cpu") == "cpu" else HeldOnDevice


class Optimizer(torch.optim.Optimizer):
    """What `optimizer` makes."""

    def __init__(
        self, given: list[Any], recipe: _core.Recipe, numbers: dict[str, Any],
        fixed: dict[str, Any], model: nn.Module | None, names: Names | None, blocks: int | None,
        seed: int | None, engine: str,
    ) -> None:
        self._fixed, self._blocks = fixed, blocks
        self._places = places_of(model, recipe, names, blocks) if model is not None else {}
        self._model = model
        engine_now = self._engine
        if seed is None:
            seed = 1 if engine_now is None else engine_now.seed
        self._plan = Plan(recipe, seed, UpdateMemory(seed), engine)
        self._held: dict[Tensor, Held] = {}
        #: auto scales of gradients between ranks, by the rows that a checkpoint has of them
        self.wire: dict[tuple[str, str], Tensor] = {}
        with refusing("model_or_params", _PARAMETERS):
            super().__init__(given, numbers)
        self.param_groups[0].setdefault(STEP_KEY, 0)
        if model is not None and engine_now is not None:
            self.param_groups[0][STEP_KEY] = engine_now.step
            attach(model, self)

    @property
    def _engine(self) -> Engine | None:
        """Whose step the optimizer's is; None: its own, of a model that is not converted."""
        return None if self._model is None else engine_of(self._model)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """As torch's; values of its parameters become what the recipe stores."""
        with refusing("model_or_params", _PARAMETERS):
            super().add_param_group(param_group)
        group = self.param_groups[-1]
        try:
            _constants(group)
            for parameter in group["params"]:
                if parameter.requires_grad:
                    self._hold(parameter, group)
        except Error:
            self.param_groups.pop()
            raise

    def _hold(self, parameter: Tensor, group: Mapping[str, Any]) -> Held:
        if parameter not in self._held:
            if parameter not in self._places:
                number = sum(len(g["params"]) for g in self.param_groups[:-1])
                number += [id(p) for p in self.param_groups[-1]["params"]].index(id(parameter))
                self._places[parameter] = given_place(number, parameter, self._blocks)
            settings = {**self._fixed, **_constants(group)}
            place = self._places[parameter]
            kind = _held_by(self._plan.engine, parameter.device)
            self._held[parameter] = kind(self._plan, parameter, place, settings)
        return self._held[parameter]

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Moves every parameter that has a gradient. Returns what the closure does."""
        loss = None
        if closure is not None:
            is_a(closure, Callable, "what can be called", "closure")
            with torch.enable_grad():
                loss = closure()
        self._follow_model()
        number = self._step_number()
        for group in self.param_groups:
            constants = _constants(group)
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                held = self._hold(parameter, group)
                _warn_of(held, held.step(parameter.grad, constants["lr"], number, constants))
        if self._engine is None:
            self.param_groups[0][STEP_KEY] = number + 1
        return loss

    def _follow_model(self) -> None:
        """Of a model that was converted after this was made: its step is this one's from now on."""
        model, engine = self._model, self._engine
        if model is None or engine is None or model in self.__dict__.get("_ng_models", ()):
            return
        move_to(model, max(engine.step, int(self.param_groups[0][STEP_KEY])))
        attach(model, self)

    def _step_number(self) -> int:
        """From 0, as the trainer counts: of draws, and one less than Adam's t."""
        engine = self._engine
        return int(self.param_groups[0][STEP_KEY]) if engine is None else engine.step

    def state_dict(self) -> dict[str, Any]:
        """torch's, with the bytes of all that persists as the state of each parameter."""
        found = super().state_dict()
        for number, parameter in zip(_numbers(found), self._parameters(), strict=True):
            if parameter in self._held:
                found["state"][number] = self._held[parameter].state()
        self.warn_of_beyond()
        return found

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Every bit of it. A parameter with other values than it had then keeps them."""
        with refusing("state_dict", "what state_dict() gave"):
            group = state_dict["param_groups"][0]
            whole(group.get(STEP_KEY, 0), STEP_KEY, 0, (1 << 32) - 1)
            super().load_state_dict({**state_dict, "state": {}})
            self.param_groups[0].setdefault(STEP_KEY, 0)
            for number, parameter in zip(_numbers(state_dict), self._parameters(), strict=True):
                if number in state_dict["state"]:
                    self._hold(parameter, self._group_of(parameter)).put_state(
                        state_dict["state"][number]
                    )

    @property
    def recipe(self) -> _core.Recipe:
        return self._plan.recipe

    def held(self) -> list[Held]:
        """Of each parameter what persists."""
        return [self._held[of] for of in self._parameters() if of in self._held]

    def warn_of_beyond(self) -> None:
        """Of what steps did not say: torch operations wait for no value in a step."""
        for held in self.held():
            _warn_of(held, held.beyond())

    def settings(self) -> dict[str, Any]:
        """Constants of the first group."""
        return {**self._fixed, **_constants(self.param_groups[0])}

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        raise Error("is no value to copy or pickle", "state_dict() and load_state_dict()",
                    key="optimizer")

    def _parameters(self) -> list[Tensor]:
        return [parameter for group in self.param_groups for parameter in group["params"]]

    def _group_of(self, parameter: Tensor) -> dict[str, Any]:
        return next(g for g in self.param_groups if any(p is parameter for p in g["params"]))


def _warn_of(held: Held, beyond: str) -> None:
    """beyond: a state; "": of nothing."""
    if beyond:
        warnings.warn(
            f"{held.place.shown}: {beyond} is beyond the range of its format, whose largest value "
            "it became", stacklevel=3,
        )


def _groups(model: nn.Module) -> list[dict[str, Any]]:
    """A model's parameters; what its noise on weights learns by itself, with its own decay."""
    learned = bit_widths_by_decay(model)
    apart = {parameter for parameters in learned.values() for parameter in parameters}
    rest = [parameter for parameter in model.parameters() if parameter not in apart]
    return [{"params": rest}, *(
        {"params": parameters, "weight_decay": decay} for decay, parameters in learned.items()
    )]  # fmt: skip


def _numbers(state_dict: Mapping[str, Any]) -> list[int]:
    """Of its parameters, in their order."""
    return [number for group in state_dict["param_groups"] for number in group["params"]]


_MOST = {"lr": 1e30, "beta1": 0.9999999, "beta2": 0.9999999, "eps": 1.0, "weight_decay": 1e30}


def _constants(group: Mapping[str, Any]) -> dict[str, float]:
    """Of a group, as they are now."""
    betas = group.get("betas")
    betas = betas.tolist() if isinstance(betas, Tensor) else betas
    if not isinstance(betas, (list, tuple)) or len(betas) != 2:
        raise ArgumentError(shown(betas), "two numbers, as (0.9, 0.95)", key="betas")
    given = {"lr": group.get("lr"), "beta1": betas[0], "beta2": betas[1], "eps": group.get("eps"),
             "weight_decay": group.get("weight_decay")}  # fmt: skip
    numbers = {key: _number(value, key) for key, value in given.items()}
    for key, value in numbers.items():
        if not 0 <= value <= _MOST[key]:
            raise Error(str(value), f"a number from 0 to {_MOST[key]:.7g}", key=key)
    return numbers


def _number(value: Any, key: str) -> float:
    """Which torch has in tensors, too."""
    return real(value.item() if isinstance(value, Tensor) and value.numel() == 1 else value, key)


def _heads(
    model: nn.Module | None, heads: int | None, kv_heads: int | None
) -> tuple[int, int]:
    config = getattr(model, "config", None)

    def said(*keys: str) -> int | None:
        found = (getattr(config, key, None) for key in keys)
        return next((value for value in found if isinstance(value, int)), None)

    if heads is None:
        heads = said("num_attention_heads", "n_head") or 1
        kv_heads = said("num_key_value_heads") if kv_heads is None else kv_heads
    kv_heads = heads if kv_heads is None else kv_heads
    most = (1 << 31) - 1
    return whole(heads, "heads", 1, most), whole(kv_heads, "kv_heads", 1, most)
