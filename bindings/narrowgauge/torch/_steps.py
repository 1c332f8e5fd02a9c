"""The step of a model's draws, and who moves it."""

from __future__ import annotations

import types
from typing import Any

import torch
from torch import nn

from .._arguments import is_a, whole
from .._errors import ArgumentError, Error
from . import _operators
from ._engine import Engine
from ._layers import Linear

#: Under this key of its first group an optimizer's state_dict carries the step.
STEP_KEY = "narrowgauge_step"


def layers_of(model: nn.Module) -> dict[str, Linear]:
    """Converted layers by module name."""
    is_a(model, nn.Module, "a torch.nn.Module", "model")
    found = {name: m for name, m in model.named_modules() if isinstance(m, Linear)}
    if not found:
        raise Error("has no converted layer", "narrowgauge.torch.convert(model, recipe) before",
                    key="model")
    return found


def engine_of(model: nn.Module) -> Engine | None:
    """That of its first converted layer; None: it has none, or none any more."""
    layers = (m for m in model.modules() if isinstance(m, Linear))
    return next((layer.ng_state.engine for layer in layers), None)


def engines_of(model: nn.Module) -> list[Engine]:
    """Those of its layers, each once."""
    engines = [layer.ng_state.engine for layer in layers_of(model).values()]
    return list({id(engine): engine for engine in engines}.values())


def begin_pass(model: Any, args: tuple[Any, ...]) -> None:
    """Before each call of a converted model, an nn.Module: the next micro-batch of the step, where
    it trains.
    """
    is_pass = model.training and torch.is_grad_enabled()
    for engine in model.ng_engines:
        engine.is_pass = is_pass
        if is_pass:
            _operators.begin_pass(engine.clock)
    if is_pass:
        for state in model.ng_states:
            state.uses = 0


def step(model: nn.Module) -> None:
    """After an update of the weights: draws of the next step, scales of what the last one saw."""
    for layer in layers_of(model).values():
        layer.ng_state.roll_scales(layer.ng_scales)
    move_to(model, engines_of(model)[0].step + 1)


def move_to(model: nn.Module, step: int) -> None:
    """Draws are those of a step, products those of its phase."""
    before = {id(engine): engine.phase for engine in engines_of(model)}
    for engine in engines_of(model):
        engine.step = step
    for layer in layers_of(model).values():
        engine = layer.ng_state.engine
        layer.ng_state.uses = 0
        if engine.phase != before[id(engine)]:
            layer.ng_state.set_phase(layer.ng_scales)


def attach(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """step(model) after every step of an optimizer, whose state_dict carries the step from now on:
    loaded, draws go on where they were. A model that was restored has no draws to move.

    Raises Error for a model that is not converted, and for what is no optimizer of torch.
    """
    if not (hasattr(optimizer, "param_groups") and hasattr(optimizer, "step")):
        raise ArgumentError(
            f"is {type(optimizer).__name__}", "a torch.optim.Optimizer", key="optimizer"
        )
    attached = optimizer.__dict__.setdefault("_ng_models", [])
    engines = engines_of(model)
    if any(of is model for of in attached):
        return

    def after(*_: Any) -> None:
        if engine_of(model) is not None:
            step(model)
            optimizer.param_groups[0][STEP_KEY] = engines_of(model)[0].step

    def loaded(*_: Any) -> None:
        if engine_of(model) is None:
            return
        # Loaded with the model, before or after: a phase that begins would clear them.
        kept = [
            (layer.ng_scales, layer.ng_scales.clone())
            for layer in layers_of(model).values()
            if layer.ng_scales is not None and layer.ng_state.engine.recipe.phases > 1
        ]
        number = optimizer.param_groups[0].get(STEP_KEY, engines_of(model)[0].step)
        move_to(model, whole(number, STEP_KEY, 0, (1 << 32) - 1))
        for of, values in kept:
            of.copy_(values)

    optimizer.param_groups[0].setdefault(STEP_KEY, engines[0].step)
    attached.append(model)
    _after(optimizer, "step", after)
    _after(optimizer, "load_state_dict", loaded)


def _after(optimizer: torch.optim.Optimizer, method: str, then: Any) -> None:
    hook = {
        "step": "register_step_post_hook",
        "load_state_dict": "register_load_state_dict_post_hook",
    }
    if hasattr(optimizer, hook[method]):
        getattr(optimizer, hook[method])(then)
        return
    own = getattr(optimizer, method)  # of torch before such hooks

    def wrapped(_: torch.optim.Optimizer, *args: Any, **words: Any) -> Any:
        result = own(*args, **words)
        then()
        return result

    # A method still: schedulers ask whose it is.
    setattr(optimizer, method, types.MethodType(wrapped, optimizer))
