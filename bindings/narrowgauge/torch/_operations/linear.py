"""The three products of a linear layer, y = x · Wᵀ + b, in a recipe's numbers. [recipes §0]

    fprop  y  = Q(x)   · Q(W)ᵀ   contracts K    x (T, K), W (N, K), y (T, N)
    dgrad  dx = Q(dy)  · Q(Wᵀ)ᵀ  contracts N
    wgrad  dW = Q(dyᵀ) · Q(xᵀ)ᵀ  contracts T
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Mapping, NamedTuple, Optional

import torch
from torch import Tensor

from . import hadamard
from .delayed import Delayed
from .form import GemmForm, LinearForm, OperandForm
from .operand import Operand, operand
from .philox import Key, Word
from .products import product


class Role(NamedTuple):
    """One of the six operands. group: its GEMM's number among those that draw signs."""

    gemm: str
    side: str
    source: str
    purpose: int
    contracts_rows: bool
    group: int


ROLES = {
    "fprop.input": Role("fprop", "left", "input", 2, False, 2),
    "fprop.weight": Role("fprop", "right", "weight", 3, False, 2),
    "dgrad.grad": Role("dgrad", "left", "output", 4, False, 0),
    "dgrad.weight": Role("dgrad", "right", "weight", 5, True, 0),
    "wgrad.grad": Role("wgrad", "left", "output", 6, True, 1),
    "wgrad.input": Role("wgrad", "right", "input", 7, True, 1),
}


@dataclass(frozen=True)
class Draws:
    """What the draws of a layer are keyed by. weight, input, output: tensor ids of W, x and dy."""

    seed: int
    step: Word = 0
    micro: Word = 0
    weight: int = 0
    input: int = 0
    output: int = 0

    def key(self, role: Role) -> Key:
        micro = 0 if role.source == "weight" else self.micro
        return Key(self.seed, getattr(self, role.source), self.step, role.purpose, micro)

    def signs(self, gemm: GemmForm, group: int, device: torch.device) -> Tensor | None:
        if gemm.hadamard == 0 or gemm.hadamard_signs == "none":
            return None
        if gemm.hadamard_signs == "fixed":
            return hadamard.fixed_signs(gemm.hadamard, device)
        return hadamard.random_signs(
            self.seed, self.weight, self.step, group, gemm.hadamard, device
        )


DelayedScales = Optional[Mapping[str, Delayed]]  #: by the name of a role


def layer_operand(
    name: str, source: Tensor, form: LinearForm, draws: Draws, delayed: DelayedScales = None
) -> Operand:
    """One of ROLES, of the tensor that it is made of: x, W or dy as they are."""
    role = ROLES[name]
    gemm = getattr(form, role.gemm)
    cast: OperandForm = getattr(gemm, role.side)
    state = delayed[name] if delayed and cast.scaling == "delayed" else None
    made = operand(
        source,
        cast,
        contract_rows=role.contracts_rows,
        k_multiple=gemm.k_multiple,
        hadamard=gemm.hadamard,
        signs=draws.signs(gemm, role.group, source.device),
        key=draws.key(role) if cast.rounding == "stochastic" else None,
        encode_scale=state.encode_scale if state else None,
    )
    if state is not None and made.amax is not None:
        state.see(made.amax)
    return made


def linear_forward(
    x: Tensor, weight: Tensor, bias: Tensor | None, form: LinearForm, draws: Draws,
    delayed: DelayedScales = None,
) -> Tensor:
    """y (T, N), in x's type."""
    qx = layer_operand("fprop.input", x, form, draws, delayed)
    qw = layer_operand("fprop.weight", weight, form, draws, delayed)
    return product(qx, qw, form.fprop, bias=bias, to_bf16=_rounds(form.fprop, x)).to(x.dtype)


def linear_backward(
    x: Tensor, weight: Tensor, grad: Tensor, form: LinearForm, draws: Draws,
    delayed: DelayedScales = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """dx (T, K) in grad's type, dW (N, K) and db (N) in FP32; grad is dy (T, N)."""
    qdy = layer_operand("dgrad.grad", grad, form, draws, delayed)
    qw = layer_operand("dgrad.weight", weight, form, draws, delayed)
    dx = product(qdy, qw, form.dgrad, to_bf16=_rounds(form.dgrad, grad)).to(grad.dtype)
    qdy = layer_operand("wgrad.grad", grad, form, draws, delayed)
    qx = layer_operand("wgrad.input", x, form, draws, delayed)
    return dx, product(qdy, qx, form.wgrad), grad.to(torch.float32).sum(0)


def _rounds(gemm: GemmForm, given: Tensor) -> bool:
    return gemm.output == "bf16" or given.dtype == torch.bfloat16
