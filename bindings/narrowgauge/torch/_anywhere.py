"""A layer's passes in torch operations alone: any device, and compilers that fuse them."""

from __future__ import annotations

from typing import Any, Optional

import torch
from torch import Tensor

from ._form import delayed_of
from ._operations import Draws, LinearForm, linear_backward, linear_forward
from ._operators import in_backward
from ._state import PASSES, LayerState


class _Linear(torch.autograd.Function):
    """when: int64 (2), step and micro-batch, on x's device."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Optional[Tensor], scales: Optional[Tensor],
        when: Tensor, state: LayerState, form: LinearForm,
    ) -> Tensor:
        ctx.save_for_backward(x, weight, when)
        ctx.state, ctx.form, ctx.scales, ctx.has_bias = state, form, scales, bias is not None
        rows = x.reshape(-1, x.shape[-1])
        y = linear_forward(
            rows, weight, bias, form, draws_of(state, when), delayed_of(form, scales)
        )
        return y.reshape(*x.shape[:-1], weight.shape[0])

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Optional[Tensor], ...]:
        x, weight, when = ctx.saved_tensors
        dx, dw, db = linear_backward(
            x.reshape(-1, x.shape[-1]), weight, grad.reshape(-1, grad.shape[-1]), ctx.form,
            draws_of(ctx.state, when), delayed_of(ctx.form, ctx.scales),
        )  # fmt: skip
        bias = db.to(weight.dtype) if ctx.has_bias else None
        return dx.reshape(x.shape), dw.to(weight.dtype), bias, None, None, None, None


def draws_of(state: LayerState, when: Tensor) -> Draws:
    ids = state.ids
    return Draws(state.engine.seed, when[0], when[1], ids.weight, ids.input, ids.output)


def _is_compiling() -> bool:
    return hasattr(torch, "compiler") and torch.compiler.is_compiling()


def linear(
    x: Tensor, weight: Tensor, bias: Optional[Tensor], scales: Optional[Tensor], state: LayerState,
    training: bool,
) -> Tensor:
    """y of a layer, with a gradient; weight (N, K)."""
    if x.numel() == 0:
        return torch.nn.functional.linear(x, weight.to(x.dtype), bias)
    form = state.form if training else state.form.to_nearest()
    clock = state.engine.clock.to(x.device)
    if training:
        use = state.next_use(not _is_compiling() and in_backward())
        when = torch.stack((clock[0], clock[1].clamp(min=0) + use * PASSES))
    else:
        when = torch.zeros_like(clock)
    if scales is not None and not training:
        scales = scales.clone()  # which an evaluation leaves alone
    y: Tensor = _Linear.apply(x, weight, bias, scales, when, state, form)
    return y
