"""Converted layers: the model's own modules, with a class before theirs."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, SupportsIndex

import torch
from torch import Tensor, nn

from .._errors import ArgumentError, Error
from . import _anywhere, _inputs, _noise, _operators
from ._state import LayerState


if TYPE_CHECKING:
    _Mixin = nn.Linear
else:
    _Mixin = object  # a layer's own class stands behind it


class Linear(_Mixin):
    """A linear layer in a recipe's numbers, before the class that the layer has: its parameters are
    the very same.

    Calls take x (..., K) in FP32 or BF16 and give y (..., N) of the same type: Q(x)·Q(W)ᵀ + b.
    Under autocast to BF16 they take x as BF16, as nn.Linear does.
    """

    ng_state: LayerState
    #: of delayed scales: for each such operand its scale and its history; None: it has none
    ng_scales: Tensor | None
    #: of noise on the weight: bit-widths of its blocks, nipq's logarithm of the clip; or None
    ng_bits: nn.Parameter | None
    ng_clip: nn.Parameter | None
    #: of the weight's gradient between ranks: mu, k and good steps of its auto scale, which begins
    #: with gradient_hook, 0 before that; None: it has none
    ng_gradient_scale: Tensor | None

    def __init__(self, *_: Any, **__: Any) -> None:
        raise ArgumentError("is what convert makes of a layer", "narrowgauge.torch.convert("
                            'torch.nn.Linear(...), recipe, names={"": "blocks.0.mlp.up"})',
                            key="Linear")

    def forward(self, x: Tensor) -> Tensor:
        state = self.ng_state
        x = _operators.as_autocast(x, state)
        _inputs.require_call(state, x, self.weight, self.bias)
        weight: Tensor = self.weight
        if self.ng_bits is not None:
            weight = _noise.noisy(state, weight, self.ng_bits, self.ng_clip, self.training)
        if not state.engine.takes_kernels(x.device):
            weight = weight.t() if state.turned else weight
            return _anywhere.linear(x, weight, self.bias, self.ng_scales, state, self.training)
        return _operators.linear(
            x, weight, self.bias, self.ng_scales, state.engine.clock, state, self.training
        )

    def _apply(self, fn: Any, *args: Any, **words: Any) -> Any:
        """Of `.to(torch.bfloat16)` and its like: scales stay FP32, which the core writes."""
        before = {name: self._buffers[name] for name in ("ng_scales", "ng_gradient_scale")}
        super()._apply(fn, *args, **words)  # type: ignore[no-untyped-call]
        for name, scales in before.items():
            after = self._buffers[name]
            if scales is not None and after is not None and after.dtype != torch.float32:
                self._buffers[name] = scales.to(after.device)
        return self

    def _load_from_state_dict(self, *args: Any, **words: Any) -> None:
        """What a recipe adds is as it is where a checkpoint of the plain model lacks it."""
        prefix, missing = args[1], args[4]
        super()._load_from_state_dict(*args, **words)
        missing[:] = [key for key in missing if not key.startswith(f"{prefix}ng_")]

    def __prepare_scriptable__(self) -> Any:
        raise self.ng_state.refuse(
            "torch.jit.script has no recipe's products", _inputs.INSTEAD
        )

    def extra_repr(self) -> str:
        state = self.ng_state
        return f"{super().extra_repr()}, {state.engine.recipe.name} as {state.name}"

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        return _made, (own_class(self),), self.__getstate__()

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__.copy()


def is_turned(layer: nn.Module) -> bool:
    """Whether its weight is (K, N): transformers' Conv1D."""
    own = own_class(layer)
    return own.__name__ == "Conv1D" and own.__module__.startswith("transformers.")


def is_linear(layer: nn.Module) -> bool:
    """Whether it computes what nn.Linear does; a class with a forward of its own may not."""
    forward = getattr(own_class(layer), "forward", None)
    return forward is nn.Linear.forward or is_turned(layer)


def own_class(layer: nn.Module) -> type[Any]:
    """The class that a layer had before it was converted."""
    classes = type(layer).__mro__
    return classes[classes.index(Linear) + 1] if Linear in classes else type(layer)


def require_outermost(layer: nn.Module, module: str) -> None:
    """Raises Error where a converted layer got another class since, as parametrizations do."""
    if isinstance(layer, Linear) and type(layer).__mro__[1] is not Linear:
        raise Error(f"is a {type(layer).__name__} since it was converted",
                    "what made it so after convert or restore, or undone before", place=module)


#: torch's fast paths in evaluation, which multiply by the weights of layers and never call these:
#: attributes of modules that open one, and the values that keep it shut.
_FAST_PATHS = (
    (nn.TransformerEncoderLayer, "activation_relu_or_gelu", 0),
    (nn.TransformerEncoder, "use_nested_tensor", False),
    (nn.TransformerEncoder, "enable_nested_tensor", False),
)


def shut_fast_paths(model: nn.Module) -> None:
    """Of modules around converted layers; what open_fast_paths restores lies in the modules."""
    for module in model.modules():
        if not isinstance(module, (nn.TransformerEncoderLayer, nn.TransformerEncoder)):
            continue
        if "ng_fast_path" in module.__dict__ or not _has_converted(module):
            continue
        kept: dict[str, Any] = {}
        for cls, name, shut in _FAST_PATHS:
            if isinstance(module, cls) and hasattr(module, name):
                kept[name] = getattr(module, name)
                setattr(module, name, shut)
        module.__dict__["ng_fast_path"] = kept


def open_fast_paths(model: nn.Module) -> None:
    """As they were."""
    for module in model.modules():
        for name, value in module.__dict__.pop("ng_fast_path", {}).items():
            setattr(module, name, value)


def _has_converted(model: nn.Module) -> bool:
    return any(isinstance(module, Linear) for module in model.modules())


@functools.lru_cache(maxsize=None)
def converted_class(own: type[Any]) -> type[Any]:
    """Linear before `own`."""
    return type(own.__name__, (Linear, own), {"__doc__": Linear.__doc__, "__module__": __name__})


def _made(own: type[Any]) -> Any:
    made: Any = converted_class(own)  # type: ignore[arg-type]  # classes have hashes
    return made.__new__(made)
