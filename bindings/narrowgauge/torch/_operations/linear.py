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
from .bits import round_to_bf16
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
        step = 0 if gemm.hadamard_signs == "layer" else self.step
        return hadamard.random_signs(self.seed, self.weight, step, group, gemm.hadamard, device)


DelayedScales = Optional[Mapping[str, Delayed]]  #: by the name of a role


def layer_operand(
    name: str, source: Tensor, form: LinearForm, draws: Draws, delayed: DelayedScales = None,
    read: Operand | None = None,
) -> Operand:
    """One of ROLES, of x, W or dy as they are. read: what the forward product read of x, where that
    is known and wgrad's is made of it; x is not looked at then.
    """
    role = ROLES[name]
    gemm = getattr(form, role.gemm)
    if role.side == "right" and role.gemm != "fprop" and form.is_from_fprop(role.gemm):
        source = _read_by_fprop(role, source, form, draws, delayed, read)
    cast: OperandForm = getattr(gemm, role.side)
    state = delayed[name] if delayed and cast.scaling == "delayed" else None
    made = operand(
        source,
        cast,
        contract_rows=role.contracts_rows,
        k_multiple=gemm.k_multiple,
        hadamard=gemm.hadamard,
        signs=draws.signs(gemm, role.group, source.device),
        key=draws.key(role) if cast.rounding != "nearest" else None,
        encode_scale=state.encode_scale if state else None,
    )
    if state is not None and made.amax is not None:
        state.see(made.amax)
    return made


def _read_by_fprop(
    role: Role, source: Tensor, form: LinearForm, draws: Draws, delayed: DelayedScales,
    read: Operand | None,
) -> Tensor:
    """x or W as the forward product read it, FP32; in the basis of a transform with its padding."""
    if read is None:
        read = layer_operand(f"fprop.{role.source}", source, form, draws, delayed)
    values = read.values
    if read.form.prescale != 1.0:
        values = values / read.form.prescale
    return values if form.fprop.hadamard else values[:, : source.shape[1]]


def _backward_product(
    a: Operand, b: Operand, name: str, form: LinearForm, draws: Draws, cols: int, to_bf16: bool
) -> Tensor:
    """Of dgrad or wgrad (rows, cols), out of the basis of the forward product's transform."""
    gemm: GemmForm = getattr(form, name)
    if not (form.fprop.hadamard and form.is_from_fprop(name)):
        return product(a, b, gemm, to_bf16=to_bf16)
    signs = draws.signs(form.fprop, ROLES["fprop.input"].group, a.elements.device)
    y = hadamard.transform_back(product(a, b, gemm), form.fprop.hadamard, signs)[:, :cols]
    return round_to_bf16(y) if to_bf16 else y


def linear_forward(
    x: Tensor, weight: Tensor, bias: Tensor | None, form: LinearForm, draws: Draws,
    delayed: DelayedScales = None, read: Operand | None = None,
) -> Tensor:
    """y (T, N), in x's type. read: x as layer_operand("fprop.input", ...) has made it."""
    qx = read or layer_operand("fprop.input", x, form, draws, delayed)
    qw = layer_operand("fprop.weight", weight, form, draws, delayed)
    return product(qx, qw, form.fprop, bias=bias, to_bf16=_rounds(form.fprop, x)).to(x.dtype)


def linear_backward(
    x: Tensor | None, weight: Tensor, grad: Tensor, form: LinearForm, draws: Draws,
    delayed: DelayedScales = None, read: Operand | None = None,
) -> tuple[Tensor, Tensor | None, Tensor]:
    """dx (T, K) in grad's type, dW (N, K) and db (N) in FP32; grad is dy (T, N).

    read: x as the forward product read it, in place of x where form.is_from_fprop("wgrad"). None of
    both: nobody asks for dW.
    """
    qdy = layer_operand("dgrad.grad", grad, form, draws, delayed)
    qw = layer_operand("dgrad.weight", weight, form, draws, delayed)
    cols, rounds = weight.shape[1], _rounds(form.dgrad, grad)
    dx = _backward_product(qdy, qw, "dgrad", form, draws, cols, rounds).to(grad.dtype)
    dw, source = None, x if read is None else read.elements
    if source is not None:
        qdy = layer_operand("wgrad.grad", grad, form, draws, delayed)
        qx = layer_operand("wgrad.input", source[:, :cols], form, draws, delayed, read)
        dw = _backward_product(qdy, qx, "wgrad", form, draws, cols, False)
    return dx, dw, grad.to(torch.float32).sum(0)


def _rounds(gemm: GemmForm, given: Tensor) -> bool:
    return gemm.output == "bf16" or given.dtype == torch.bfloat16
