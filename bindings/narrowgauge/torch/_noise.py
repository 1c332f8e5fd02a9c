"""Noise on weights: ŵ in place of w in training, and the gradients of what noise learns."""

from __future__ import annotations

from typing import Any, Optional

import torch
from torch import Tensor

from .._devices import when as when_of
from ._anywhere import noisy as noisy_anywhere
from ._custom import HAS_OPERATORS, operator
from ._operators import differentiable_once, refuse_twice, saved_of
from ._state import LayerState, state_of


def _weight_rows(weight: Tensor, state: LayerState) -> Tensor:
    rows = weight.detach()
    return (rows.t() if state.turned else rows).contiguous()


def _learned(of: Tensor) -> Tensor:
    return of.detach().float().contiguous()


def _clip(of: Optional[Tensor]) -> Optional[Tensor]:
    return None if of is None else _learned(of)


def _forward(
    weight: Tensor, bits: Tensor, clip: Optional[Tensor], layer: int, training: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """ŵ, what noise was multiplied by, and the ticket: step, whether it was in training."""
    state = state_of(layer)
    rows = _weight_rows(weight, state)
    step = state.engine.step if training else 0
    y = torch.empty(rows.shape, device=weight.device)
    scales = torch.empty(bits.shape, device=weight.device)
    noise = state.noise(weight.device)
    when = when_of(weight.device, step, 0, not training)
    if training:
        noise.add(when, rows, _learned(bits), _clip(clip), y, scales)
    else:
        noise.quantize(when, rows, _learned(bits), _clip(clip), y)
    state.says_noise_of(weight, bits)
    return y.t() if state.turned else y, scales, torch.tensor([step, int(training)])


def _backward(
    grad: Tensor, weight: Tensor, bits: Tensor, clip: Optional[Tensor], scales: Tensor,
    ticket: Tensor, layer: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """dL/dw, dL/db_i, dL/da; that of no clip has no elements."""
    state = state_of(layer)
    step, training = ticket.tolist()
    dw = _weight_rows(grad, state).to(torch.float32, copy=True)
    of_bits = torch.zeros(bits.shape, device=grad.device)
    of_clip = torch.zeros(0 if clip is None else clip.shape, device=grad.device)
    if training:  # else what is rounded passes gradients as they are
        rows = _weight_rows(weight, state)
        state.noise(grad.device).backward(
            when_of(grad.device, step, 0, False), rows, _learned(bits), _clip(clip),
            scales, dw, of_bits, None if clip is None else of_clip,
        )
    dw = dw.t().contiguous() if state.turned else dw
    return dw.to(weight.dtype), of_bits.to(bits.dtype), of_clip


def _gradients(ctx: Any, grad: Tensor) -> tuple[Optional[Tensor], ...]:
    weight, bits, clip, scales, ticket = saved_of(ctx)
    needs = ctx.needs_input_grad
    dw, of_bits, of_clip = _differentiate(grad, weight, bits, clip, scales, ticket, ctx.layer)
    return (
        dw if needs[0] else None,
        of_bits if needs[1] else None,
        of_clip.to(clip.dtype) if needs[2] else None,
    )


if HAS_OPERATORS:

    def _add_noise(
        weight: Tensor, bits: Tensor, clip: Optional[Tensor], clock: Tensor, layer: int,
        turned: bool, training: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:
        return _forward(weight, bits, clip, layer, training)

    _add = operator("add_noise", _add_noise, draws=True)
    _differentiate = operator("add_noise_backward", _backward)

    @_add.register_fake
    def _(
        weight: Tensor, bits: Tensor, clip: Optional[Tensor], clock: Tensor, layer: int,
        turned: bool, training: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:
        y = torch.empty(weight.shape[::-1] if turned else weight.shape, device=weight.device)
        scales = torch.empty(bits.shape, device=weight.device)
        return (y.t() if turned else y), scales, torch.empty(2, dtype=torch.int64)

    @_differentiate.register_fake
    def _(
        grad: Tensor, weight: Tensor, bits: Tensor, clip: Optional[Tensor], scales: Tensor,
        ticket: Tensor, layer: int,
    ) -> tuple[Tensor, Tensor, Tensor]:
        of_clip = torch.empty(0 if clip is None else clip.shape, device=weight.device)
        return torch.empty_like(weight), torch.empty_like(bits), of_clip

    def _set_up(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        weight, bits, clip, _, ctx.layer, _, _ = inputs
        ctx.state = state_of(ctx.layer)
        ctx.save_for_backward(weight, bits, clip, *output[1:])

    def _grad(ctx: Any, grad: Tensor, *_: Any) -> tuple[Optional[Tensor], ...]:
        return (*_gradients(ctx, grad), *[None] * 4)

    _add.register_autograd(_grad, setup_context=_set_up)
    _differentiate.register_autograd(refuse_twice)
else:
    _differentiate = _backward  # type: ignore[assignment]

    class _Add(torch.autograd.Function):
        """The same before torch had operators of others."""

        @staticmethod
        def forward(
            ctx: Any, weight: Tensor, bits: Tensor, clip: Optional[Tensor], layer: int,
            training: bool,
        ) -> Tensor:
            y, scales, ticket = _forward(weight, bits, clip, layer, training)
            ctx.layer, ctx.state = layer, state_of(layer)
            ctx.save_for_backward(weight, bits, clip, scales, ticket)
            return y

        @staticmethod
        @differentiable_once
        def backward(ctx: Any, grad: Tensor) -> tuple[Optional[Tensor], ...]:
            return (*_gradients(ctx, grad), None, None)

    def _add(  # type: ignore[misc]
        weight: Tensor, bits: Tensor, clip: Optional[Tensor], clock: Tensor, layer: int,
        turned: bool, training: bool,
    ) -> tuple[Tensor]:
        return (_Add.apply(weight, bits, clip, layer, training),)


def noisy(
    state: LayerState, weight: Tensor, bits: Tensor, clip: Optional[Tensor], training: bool
) -> Tensor:
    """What a layer with noise multiplies by: ŵ of this step in training, else without noise."""
    if not training and clip is None:
        return weight
    if not state.engine.takes_kernels(weight.device):
        rows = noisy_anywhere(state, weight.t() if state.turned else weight, bits, clip, training)
        return rows.t() if state.turned else rows
    y: Tensor = _add(
        weight, bits, clip, state.engine.clock, state.number, state.turned, training
    )[0]
    return y
