"""What a layer takes: the one place that looks at its tensors before they are computed with."""

from __future__ import annotations

from typing import Any, Optional

import torch
import torch.fx
from torch import Tensor

from .._devices import KERNELS
from ._state import LayerState

_TYPES = (torch.float32, torch.bfloat16)
_BATCHED = "is_batchedtensor", "is_legacy_batchedtensor"
#: What works where a transform does not.
INSTEAD = "narrowgauge.torch.restore(model) before, or torch.compile of the converted model"


def is_compiling() -> bool:
    return hasattr(torch, "compiler") and torch.compiler.is_compiling()


def require_call(
    state: LayerState, x: Any, weight: Optional[Tensor], bias: Optional[Tensor]
) -> None:
    """That a layer can compute y of x (..., K), weight (N, K) or turned (K, N), bias (N): FP32 or
    BF16 of one device; and that the call is none of a transform which would change what is drawn,
    or drop the drawing.
    """
    if torch._C._get_tracing_state() is not None:
        raise state.refuse("torch.jit.trace would keep the draws of one pass", INSTEAD)
    _require_dense(state, "input", x)
    if x.dim() == 0 or x.shape[-1] != state.inputs:
        raise state.refuse(f"input is {tuple(x.shape)}", f"(..., {state.inputs})")
    _require_device(state, "input", x, x)
    require_parameters(state, x, weight, bias)
    compiler = getattr(torch, "compiler", None)
    if compiler is not None and getattr(compiler, "is_exporting", lambda: False)():
        raise state.refuse("torch.export has no recipe's products", INSTEAD)
    if compiler is None or is_compiling():
        return
    if torch._C._functorch.is_batchedtensor(x):
        raise state.refuse(
            "vmap would scale and draw row by row", "a batch of inputs in one call, without vmap"
        )
    is_forward_mode = getattr(torch.autograd.forward_ad, "_current_level", -1) >= 0
    if is_forward_mode or torch._C._functorch.peek_interpreter_stack() is not None:
        raise state.refuse(
            "torch.func and forward mode have no recipe's gradients",
            "loss.backward(), or torch.autograd.grad",
        )


def require_parameters(
    state: LayerState, x: Tensor, weight: Optional[Tensor], bias: Optional[Tensor]
) -> None:
    """That they are those of the layer that was converted, beside x."""
    _require_parameter(state, "weight", x, weight, _weight_shape(state))
    if (bias is not None) != state.has_bias:
        raise state.refuse(
            f"has {'no' if bias is None else 'a'} bias, otherwise than when it was converted",
            "convert(model, recipe) once more",
        )
    if bias is not None:
        _require_parameter(state, "bias", x, bias, (state.outputs,))


def require_gradient(state: LayerState, grad: Tensor, weight: Tensor) -> None:
    """That backward can go on from dL/dy by the weight of the forward pass, which may have been
    given other data since."""
    functorch = getattr(torch._C, "_functorch", None)
    if not is_compiling() and any(
        getattr(functorch, name, lambda _: False)(grad) for name in _BATCHED
    ):
        raise state.refuse(
            "vmap would scale and draw row by row", "one backward pass after the other"
        )
    if tuple(weight.shape) not in (_weight_shape(state), _weight_shape(state)[::-1]):
        raise state.refuse(
            f"weight is {tuple(weight.shape)}", f"{_weight_shape(state)}, as in the forward pass"
        )


def _weight_shape(state: LayerState) -> tuple[int, int]:
    outputs, inputs = state.outputs, state.inputs
    return (inputs, outputs) if state.turned else (outputs, inputs)


def _require_parameter(
    state: LayerState, what: str, x: Tensor, tensor: Any, shape: tuple[int, ...]
) -> None:
    _require_dense(state, what, tensor)
    if tuple(tensor.shape) != shape:
        raise state.refuse(f"{what} is {tuple(tensor.shape)}", f"{shape}, as it was converted")
    _require_device(state, what, tensor, x)


def _require_dense(state: LayerState, what: str, tensor: Any) -> None:
    """Refuses what no layer computes with."""
    if not isinstance(tensor, Tensor):
        if isinstance(tensor, torch.fx.Proxy):
            raise state.refuse("torch.fx.symbolic_trace has no recipe's products", INSTEAD)
        raise state.refuse(f"{what} is {type(tensor).__name__}", "a torch.Tensor")
    if tensor.layout != torch.strided or tensor.is_nested:
        layout = "nested" if tensor.is_nested else str(tensor.layout)
        raise state.refuse(f"{what} is {layout}", "a dense tensor")
    if tensor.dtype not in _TYPES:
        raise state.refuse(f"{what} is {tensor.dtype}", "torch.float32 or torch.bfloat16")


def _require_device(state: LayerState, what: str, tensor: Tensor, x: Tensor) -> None:
    if state.engine.kind == "kernels" and tensor.device.type not in KERNELS:
        raise state.refuse(
            f"{what} is on {tensor.device}", 'the CPU, or convert(..., engine="auto")'
        )
    if tensor.device != x.device:
        raise state.refuse(
            f"{what} is on {tensor.device}, the input on {x.device}", "one device for both"
        )
