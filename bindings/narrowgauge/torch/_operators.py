"""The forward and the backward pass of a layer as operators of torch.

x (..., K), weight (N, K) or turned (K, N), y (..., N); FP32 or BF16 each. A ticket, int64 (3), says
of when a pass was: step, micro-batch, whether it was an evaluation. What backward reads of x is x,
or the codes and scales that the forward product read, uint8, where the recipe reads those again.
"""

from __future__ import annotations

import math
import sys
from types import FrameType
from typing import Any, Optional, Sequence

import torch
import torch.utils.checkpoint
from torch import Tensor

from .._devices import when as when_of
from .._errors import Error
from ._custom import HAS_OPERATORS, operator
from ._inputs import is_compiling, require_gradient
from ._state import LayerState, state_of

_REPEATS = torch.utils.checkpoint.__file__


def in_backward() -> bool:
    """Whether autograd is at work on this thread: a forward pass now is checkpointing's repeat."""
    if hasattr(torch._C, "_current_graph_task_id"):
        return torch._C._current_graph_task_id() != -1
    frame: FrameType | None = sys._getframe()  # of torch before 2.0: who calls tells
    while frame is not None:
        if frame.f_code.co_name in ("backward", "unpack") and frame.f_code.co_filename == _REPEATS:
            return True
        frame = frame.f_back
    return False


def as_autocast(x: Tensor, state: LayerState) -> Tensor:
    """What autocast hands to a layer; an Error under one that no recipe computes in."""
    if not isinstance(x, Tensor):  # which is refused next
        return x
    device = x.device.type
    if x.dtype != torch.float32 or device not in ("cpu", "cuda"):
        return x
    if hasattr(torch, "get_autocast_dtype"):
        is_on, dtype = torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)
    elif device == "cpu":  # of torch before 2.4
        is_on, dtype = torch.is_autocast_cpu_enabled(), torch.get_autocast_cpu_dtype()
    else:
        is_on, dtype = torch.is_autocast_enabled(), torch.get_autocast_gpu_dtype()
    if is_on and dtype == torch.float16:
        raise state.refuse("autocast to torch.float16", "torch.autocast(..., torch.bfloat16)")
    return x.to(dtype) if is_on and dtype == torch.bfloat16 else x


def _rows(x: Tensor, cols: int) -> Tensor:
    rows = x.detach().reshape(-1, cols)
    return rows if rows.stride(1) == 1 or cols == 1 else rows.contiguous()


def forward_pass(
    x: Tensor, weight: Tensor, bias: Optional[Tensor], scales: Optional[Tensor], layer: int,
    training: bool, keeps: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """y, the ticket of this pass, and what it kept of x, where a gradient will be made of that
    (`keeps`) and x itself is not read then.
    """
    state = state_of(layer)
    outputs, inputs = state.outputs, state.inputs
    y = x.new_empty((*x.shape[:-1], outputs))
    repeats = training and in_backward()
    micro = 0
    if training:
        micro = state.same_micro(x) if repeats else state.next_micro(x)
    step = state.engine.step if training else 0
    core = state.core(x.device)
    size = state.kept_size(x.numel() // inputs) if keeps else 0
    kept_input = torch.empty(size, dtype=torch.uint8, device=x.device)
    state.saved_bytes = (size or x.numel() * x.element_size()) if keeps else 0
    if x.numel() > 0:
        state.place_scales(core, scales)
        when = when_of(x.device, step, micro, not training, repeats)
        kept = state.is_kept(weight, step, not training)
        core.forward(
            when, kept, state.weight_rows(weight, kept), _row(bias), _rows(x, inputs),
            y.view(-1, outputs), kept_input if size else None,
        )
    return y, torch.tensor([step, micro, int(not training)], dtype=torch.int64), kept_input


def backward_pass(
    grad: Tensor, x: Tensor, weight: Tensor, bias: Optional[Tensor], scales: Optional[Tensor],
    ticket: Tensor, layer: int, needs: Sequence[bool],
) -> tuple[Tensor, Tensor, Tensor]:
    """dx, dW, db; one that nobody needs has no elements."""
    state = state_of(layer)
    require_gradient(state, grad, weight)
    outputs, inputs = state.outputs, state.inputs
    step, micro, evaluates = ticket.tolist()
    rows = grad.numel() // outputs
    dx = grad.new_empty((*grad.shape[:-1], inputs) if needs[0] else 0)
    dw = weight.new_empty((outputs, inputs) if needs[1] else 0)
    db = torch.empty(outputs if needs[2] else 0, dtype=torch.float32, device=grad.device)
    if rows == 0:
        dw.zero_(), db.zero_()
    else:
        core = state.core(grad.device)
        state.place_scales(core, scales)
        when = when_of(grad.device, step, micro, bool(evaluates))
        kept = state.is_kept(weight, step, bool(evaluates))
        of_grad = _rows(grad, outputs)
        is_read = x.dtype == torch.uint8
        of_input = of_grad[:, :0]
        if needs[1] or (needs[0] and state.reads_input):
            of_input = state.kept_values(x, rows) if is_read else _rows(x, inputs)
        core.backward(
            when, kept, state.weight_rows(weight, kept), _row(bias), of_input, is_read, of_grad,
            dx.view(-1, inputs) if needs[0] else None,
            dw if needs[1] else None,
            db.view(1, -1) if needs[2] else None,
        )
    if needs[1] and state.turned:
        dw = dw.t().contiguous()
    return dx, dw, db.to(bias.dtype) if bias is not None and needs[2] else db


def _row(bias: Optional[Tensor]) -> Optional[Tensor]:
    return None if bias is None else bias.detach().view(1, -1)


def linear(
    x: Tensor, weight: Tensor, bias: Optional[Tensor], scales: Optional[Tensor], clock: Tensor,
    state: LayerState, training: bool,
) -> Tensor:
    """y of a layer, with a gradient."""
    asks = weight.requires_grad or (x.requires_grad and state.reads_input)
    keeps = torch.is_grad_enabled() and asks
    y: Tensor = _linear(
        x, weight, bias, scales, clock, state.number, state.outputs, training, keeps
    )[0]
    return y


def _gradients(ctx: Any, grad: Tensor) -> list[Optional[Tensor]]:
    needs = _needs(ctx)
    made = _backward(grad, *saved_of(ctx), ctx.layer, needs)
    return [part if need else None for part, need in zip(made, needs)]


def _needs(ctx: Any) -> list[bool]:
    return [bool(need) for need in ctx.needs_input_grad[:3]]


def _save(
    ctx: Any, x: Tensor, weight: Tensor, bias: Optional[Tensor], scales: Optional[Tensor],
    layer: int, ticket: Tensor, kept: Tensor,
) -> None:
    """Of x and the weight what gradients will be made of."""
    ctx.layer, ctx.state = layer, state_of(layer)  # which a graph may outlive
    needs = _needs(ctx)
    reads = needs[1] or (needs[0] and ctx.state.reads_input)
    of_input = kept if kept.shape[0] > 0 or not reads else x
    ctx.save_for_backward(of_input, weight, bias, scales, ticket)


def saved_of(ctx: Any) -> tuple[Tensor, ...]:
    """What a pass saved; what torch says where that is gone or changed is said of the layer."""
    try:
        saved: tuple[Tensor, ...] = ctx.saved_tensors
    except RuntimeError as error:
        if "inplace" in str(error):
            raise ctx.state.refuse(
                "its weight or its input was changed in place after the forward pass",
                "changes behind loss.backward()",
            ) from error
        if "second time" in str(error):
            raise ctx.state.refuse(
                "backward a second time", "loss.backward(retain_graph=True) the first time"
            ) from error
        raise
    return saved


def refuse_twice(*_: object) -> None:
    """The gradient of a backward pass."""
    raise Error("a gradient of a gradient", "models without narrowgauge.torch.convert", "backward")


class _Once(torch.autograd.Function):
    """Gradients as they are, which their own would be asked for through what they are made of."""

    @staticmethod
    def forward(
        ctx: Any, gradients: tuple[Optional[Tensor], ...], *made_of: Optional[Tensor]
    ) -> tuple[Optional[Tensor], ...]:
        return tuple(None if g is None else g.view_as(g) for g in gradients)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        refuse_twice()


def differentiable_once(backward: Any) -> Any:
    """The backward of a torch.autograd.Function whose gradients have none."""

    def once(ctx: Any, *gradients: Tensor) -> Any:
        with torch.no_grad():
            made = backward(ctx, *gradients)
        if is_compiling() or not torch.is_grad_enabled():
            return made
        return _Once.apply(made, *gradients, *saved_of(ctx))

    return once


def _count_pass(clock: Tensor) -> None:
    if not in_backward():  # else a whole model is checkpointed
        clock[1] += 1


if HAS_OPERATORS:
    Tensors = tuple[Tensor, Tensor, Tensor]

    def _forward(
        x: Tensor, weight: Tensor, bias: Optional[Tensor], scales: Optional[Tensor], clock: Tensor,
        layer: int, outputs: int, training: bool, keeps: bool,
    ) -> Tensors:
        return forward_pass(x, weight, bias, scales, layer, training, keeps)

    _linear = operator("linear", _forward, draws=True)
    _backward = operator("linear_backward", backward_pass)
    begin_pass = operator("begin_pass", _count_pass, changes=("clock",))

    @_linear.register_fake
    def _(
        x: Tensor, weight: Tensor, bias: Optional[Tensor], scales: Optional[Tensor], clock: Tensor,
        layer: int, outputs: int, training: bool, keeps: bool,
    ) -> Tensors:
        size = state_of(layer).kept_size(math.prod(x.shape[:-1])) if keeps else 0
        return (
            x.new_empty((*x.shape[:-1], outputs)), torch.empty(3, dtype=torch.int64),
            torch.empty(size, dtype=torch.uint8, device=x.device),
        )  # fmt: skip

    @_backward.register_fake
    def _(
        grad: Tensor, x: Tensor, weight: Tensor, bias: Optional[Tensor], scales: Optional[Tensor],
        ticket: Tensor, layer: int, needs: Sequence[bool],
    ) -> tuple[Tensor, Tensor, Tensor]:
        inputs = weight.shape[0] if grad.shape[-1] == weight.shape[1] else weight.shape[1]
        return (
            grad.new_empty((*grad.shape[:-1], inputs) if needs[0] else 0),
            weight.new_empty(weight.shape if needs[1] else 0),
            bias.new_empty(bias.shape) if bias is not None and needs[2] else grad.new_empty(0),
        )

    def _set_up(ctx: Any, inputs: tuple[Any, ...], output: Tensors) -> None:
        x, weight, bias, scales, _, layer, _, _, _ = inputs
        _save(ctx, x, weight, bias, scales, layer, *output[1:])

    def _grad(ctx: Any, grad: Tensor, *_: Any) -> tuple[Optional[Tensor], ...]:
        return (*_gradients(ctx, grad), *[None] * 6)

    _linear.register_autograd(_grad, setup_context=_set_up)
    _backward.register_autograd(refuse_twice)
else:

    class _Linear(torch.autograd.Function):
        """The same before torch had operators of others."""

        @staticmethod
        def forward(
            ctx: Any, x: Tensor, weight: Tensor, bias: Optional[Tensor],
            scales: Optional[Tensor], layer: int, training: bool, keeps: bool,
        ) -> Tensor:
            y, ticket, kept = forward_pass(x, weight, bias, scales, layer, training, keeps)
            _save(ctx, x, weight, bias, scales, layer, ticket, kept)
            return y

        @staticmethod
        @differentiable_once
        def backward(ctx: Any, grad: Tensor) -> tuple[Optional[Tensor], ...]:
            return (*_gradients(ctx, grad), *[None] * 4)

    begin_pass, _backward = _count_pass, backward_pass  # type: ignore[assignment]

    def _linear(  # type: ignore[misc]
        x: Tensor, weight: Tensor, bias: Optional[Tensor], scales: Optional[Tensor], clock: Tensor,
        layer: int, outputs: int, training: bool, keeps: bool,
    ) -> tuple[Tensor]:
        return (_Linear.apply(x, weight, bias, scales, layer, training, keeps),)
