"""A layer's passes in torch operations alone: any device, and compilers that fuse them."""

from __future__ import annotations

from typing import Any, Optional

import torch
from torch import Tensor

from ._form import delayed_of
from ._inputs import is_compiling, require_gradient
from ._operations import (
    Draws, Kept, LinearForm, NoiseForm, NoiseSource, add_noise, keep, layer_operand,
    linear_backward, linear_forward, noise_backward, quantize_by_proxy, read_again,
)
from ._operators import differentiable_once, in_backward, saved_of
from ._state import PASSES, LayerState


class _Linear(torch.autograd.Function):
    """when: int64 (2), step and micro-batch, on x's device. asks: for gradients of x and weight."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Optional[Tensor], scales: Optional[Tensor],
        when: Tensor, state: LayerState, form: LinearForm, asks: tuple[bool, bool],
    ) -> Tensor:
        ctx.state, ctx.form, ctx.scales, ctx.has_bias = state, form, scales, bias is not None
        ctx.shape, ctx.asks_weight = x.shape, asks[1]
        keeps = asks[1] or (asks[0] and form.dgrad_reads_input)
        rows = x.reshape(-1, x.shape[-1])
        draws, delayed = draws_of(state, when), delayed_of(form, scales)
        read = None
        of_input = Kept(x, None, None)
        if keeps and form.is_from_fprop("wgrad") and not form.dgrad_reads_input:
            read = layer_operand("fprop.input", rows, form, draws, delayed)
            if form.fprop.left.element.bits <= 16:
                of_input = keep(read, _columns(form, x.shape[-1])[0])
        if not is_compiling():
            state.saved_bytes = of_input.bytes if keeps else 0
        ctx.keeps, ctx.is_kept = keeps, of_input.codes is not x
        ctx.save_for_backward(weight, when, *(of_input if keeps else ()))
        y = linear_forward(rows, weight, bias, form, draws, delayed, read)
        return y.reshape(*x.shape[:-1], weight.shape[0])

    @staticmethod
    @differentiable_once
    def backward(ctx: Any, grad: Tensor) -> tuple[Optional[Tensor], ...]:
        weight, when, *saved = saved_of(ctx)
        require_gradient(ctx.state, grad, weight)
        form, (*_, inputs) = ctx.form, ctx.shape
        grads = grad.reshape(-1, grad.shape[-1])
        x = read = None
        if ctx.keeps and ctx.is_kept:
            cols, padded = _columns(form, inputs)
            shape = (grads.shape[0], cols)
            read = read_again(Kept(*saved), form.fprop.left, shape, padded)
        elif ctx.keeps:
            x = saved[0].reshape(-1, inputs)
        dx, dw, db = linear_backward(
            x, weight, grads, form, draws_of(ctx.state, when), delayed_of(form, ctx.scales), read,
            asks_weight=ctx.asks_weight,
        )
        bias = db.to(weight.dtype) if ctx.has_bias else None
        dw = None if dw is None else dw.to(weight.dtype)
        return dx.reshape(ctx.shape), dw, bias, None, None, None, None, None


def _columns(form: LinearForm, inputs: int) -> tuple[int, int]:
    """Of what is kept of an input, and of its operand: a transform leaves no zeros where it was
    padded."""
    padded = inputs + -inputs % form.fprop.k_multiple
    return (padded if form.fprop.hadamard else inputs), padded


def draws_of(state: LayerState, when: Tensor) -> Draws:
    ids = state.ids
    return Draws(state.engine.seed, when[0], when[1], ids.weight, ids.input, ids.output)


def linear(
    x: Tensor, weight: Tensor, bias: Optional[Tensor], scales: Optional[Tensor], state: LayerState,
    training: bool,
) -> Tensor:
    """y of a layer, with a gradient; weight (N, K)."""
    if x.numel() == 0:
        return torch.nn.functional.linear(x, weight.to(x.dtype), bias)
    form = state.form if training else state.quiet_form
    clock = state.engine.clock
    if not training:
        when = torch.zeros_like(clock)
    elif is_compiling():
        when = torch.stack((clock[0], clock[1].clamp(min=0) + state.next_use() * PASSES))
    else:
        micro = state.same_micro(x) if in_backward() else state.next_micro(x)
        when = torch.tensor([state.engine.step, micro], device="cpu")
    when = when.to(x.device)
    if scales is not None and not training:
        scales = scales.clone()  # which an evaluation leaves alone
    is_wanted = torch.is_grad_enabled()
    asks = (is_wanted and x.requires_grad, is_wanted and weight.requires_grad)
    y: Tensor = _Linear.apply(x, weight, bias, scales, when, state, form, asks)
    return y


class _Noise(torch.autograd.Function):
    """ŵ of weight (N, K). step: int64 (), on the weight's device; None at evaluation."""

    @staticmethod
    def forward(
        ctx: Any, weight: Tensor, bits: Tensor, clip: Optional[Tensor], step: Optional[Tensor],
        state: LayerState, form: NoiseForm,
    ) -> Tensor:
        ctx.state, ctx.form, ctx.training = state, form, step is not None
        of, rows = _source(state, bits, clip, step), weight.to(torch.float32)
        if step is None:
            ctx.save_for_backward(weight, bits, clip)
            return quantize_by_proxy(rows, form, of)
        y, scales = add_noise(rows, form, of)
        ctx.save_for_backward(weight, bits, clip, scales, step)
        return y

    @staticmethod
    @differentiable_once
    def backward(ctx: Any, grad: Tensor) -> tuple[Optional[Tensor], ...]:
        weight, bits, clip, *kept = saved_of(ctx)
        if not ctx.training:  # what is rounded passes gradients as they are
            none = None if clip is None else torch.zeros_like(clip)
            return grad.to(weight.dtype), torch.zeros_like(bits), none, None, None, None
        scales, step = kept
        of = _source(ctx.state, bits, clip, step)
        dw, of_bits, of_clip = noise_backward(grad, weight.to(torch.float32), scales, ctx.form, of)
        of_clip = None if clip is None or of_clip is None else of_clip.to(clip.dtype)
        return dw.to(weight.dtype), of_bits.to(bits.dtype), of_clip, None, None, None


def _source(
    state: LayerState, bits: Tensor, clip: Optional[Tensor], step: Optional[Tensor]
) -> NoiseSource:
    return NoiseSource(
        state.engine.seed, state.ids.weight, step, bits.to(torch.float32),
        None if clip is None else clip.to(torch.float32),
    )  # fmt: skip


def require_fp64(state: LayerState, device: torch.device) -> None:
    """In which noise is multiplied and summed."""
    if device.type == "mps":
        raise state.refuse("noise on weights needs FP64, which mps lacks", "the CPU, or a card")


def noisy(
    state: LayerState, weight: Tensor, bits: Tensor, clip: Optional[Tensor], training: bool
) -> Tensor:
    """ŵ of this step in training, else nipq's without noise, with a gradient; weight (N, K)."""
    require_fp64(state, weight.device)
    step = state.engine.clock[0].to(weight.device, copy=True) if training else None
    y: Tensor = _Noise.apply(weight, bits, clip, step, state, state.noise_form)
    return y
