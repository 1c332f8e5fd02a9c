"""The three products of a linear layer, y = x · Wᵀ + b, in a recipe's numbers. [recipes §0]

    fprop  y  = Q(x)   · Q(W)ᵀ   contracts K    x (T, K), W (N, K), y (T, N)
    dgrad  dx = Q(dy)  · Q(Wᵀ)ᵀ  contracts N
    wgrad  dW = Q(dyᵀ) · Q(xᵀ)ᵀ  contracts T
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping, NamedTuple, Optional

import torch
from torch import Tensor

from . import hadamard
from .bits import round_to_bf16
from .delayed import Delayed
from .form import GemmForm, LinearForm, OperandForm
from .means import subtracted_mean
from .operand import Operand, operand, scaled_values
from .passing import passing_factor
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
_OUTPUT_PURPOSES = {"fprop": 15, "dgrad": 16}


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
    return _centered_operand(name, source, form, draws, delayed, read)[0]


def _centered_operand(
    name: str, source: Tensor, form: LinearForm, draws: Draws, delayed: DelayedScales,
    read: Operand | None = None,
) -> tuple[Operand, Tensor | None]:
    """The same, and the mean over tokens (1, cols) that it lacks."""
    role = ROLES[name]
    gemm: GemmForm = getattr(form, role.gemm)
    if role.side == "right" and role.gemm != "fprop" and form.is_from_fprop(role.gemm):
        source = _read_by_fprop(role, source, form, draws, delayed, read)
    mean = None
    if gemm.center != "none" and role.source != "weight":
        mean = subtracted_mean(source, gemm, role.gemm == "wgrad")
        source = source.to(torch.float32) - mean
    cast: OperandForm = getattr(gemm, role.side)
    state = delayed[name] if delayed and cast.scaling == "delayed" else None
    made = operand(
        source, cast, contract_rows=role.contracts_rows,
        **_how(role, gemm, cast, draws, state, source.device),
    )  # fmt: skip
    if state is not None and made.amax is not None:
        state.see(made.amax)
    return made, mean


def _how(
    role: Role, gemm: GemmForm, cast: OperandForm, draws: Draws, state: Delayed | None,
    device: torch.device,
) -> dict[str, Any]:
    """How `operand` makes one of a layer."""
    return {
        "k_multiple": gemm.k_multiple,
        "hadamard": gemm.hadamard,
        "signs": draws.signs(gemm, role.group, device),
        "key": draws.key(role) if cast.rounding != "nearest" else None,
        "encode_scale": state.encode_scale if state else None,
    }


def _product_of_mean(
    mean: Tensor | None, name: str, form: LinearForm, draws: Draws, weight: Operand
) -> Tensor | None:
    """What every row of a product lacks, (1, its columns) FP32."""
    role = ROLES[name]
    gemm: GemmForm = getattr(form, role.gemm)
    alone = gemm.of_mean
    if mean is None or alone is None:
        return None
    how = _how(role, gemm, alone.left, draws, None, mean.device)
    return product(operand(mean, alone.left, **how), weight, alone)


def _passed(
    y: Tensor, name: str, source: Tensor, form: LinearForm, draws: Draws, delayed: DelayedScales
) -> Tensor:
    """What the rounding of a forward operand lets through of its gradient, or of the first columns
    of that."""
    role = ROLES[name]
    cast: OperandForm = getattr(form.fprop, role.side)
    if cast.gradient == "straight":
        return y
    state = delayed[name] if delayed and cast.scaling == "delayed" else None
    u = scaled_values(source, cast, **_how(role, form.fprop, cast, draws, state, source.device))
    return y * passing_factor(u, cast)[:, : y.shape[1]]


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


def _turned_back(y: Tensor, name: str, form: LinearForm, draws: Draws, cols: int) -> Tensor:
    """What dgrad or wgrad gave, out of the basis of the forward product's transform."""
    if not (form.fprop.hadamard and form.is_from_fprop(name)):
        return y
    signs = draws.signs(form.fprop, ROLES["fprop.input"].group, y.device)
    return hadamard.transform_back(y, form.fprop.hadamard, signs)[:, :cols]


def _narrowed(y: Tensor, gemm: str, form: LinearForm, draws: Draws) -> Tensor:
    """What fprop or dgrad gave, FP32, as a tensor that is stored by its `output` holds it."""
    cast: OperandForm | None = getattr(form, gemm).narrow_output
    if cast is None:
        return y
    key = Key(draws.seed, draws.output, draws.step, _OUTPUT_PURPOSES[gemm], draws.micro)
    return operand(y, cast, key=key if cast.rounding != "nearest" else None).values


def linear_forward(
    x: Tensor, weight: Tensor, bias: Tensor | None, form: LinearForm, draws: Draws,
    delayed: DelayedScales = None, read: Operand | None = None,
) -> Tensor:
    """y (T, N), in x's type. read: x as layer_operand("fprop.input", ...) has made it, which lacks
    no mean."""
    qx, mean = (read, None) if read else _centered_operand("fprop.input", x, form, draws, delayed)
    qw = layer_operand("fprop.weight", weight, form, draws, delayed)
    row = _product_of_mean(mean, "fprop.input", form, draws, qw)
    if row is not None:
        bias = row if bias is None else row + bias.to(torch.float32)
    rounds = _rounds(form.fprop, x)
    if form.fprop.narrow_output is None:
        return product(qx, qw, form.fprop, bias=bias, to_bf16=rounds).to(x.dtype)
    y = _narrowed(product(qx, qw, form.fprop, bias=bias), "fprop", form, draws)
    return (round_to_bf16(y) if rounds else y).to(x.dtype)


def linear_backward(
    x: Tensor | None, weight: Tensor, grad: Tensor, form: LinearForm, draws: Draws,
    delayed: DelayedScales = None, read: Operand | None = None, *, asks_weight: bool = True,
) -> tuple[Tensor, Tensor | None, Tensor]:
    """dx (T, K) in grad's type, dW (N, K) and db (N) in FP32; grad is dy (T, N).

    x: None where nothing reads it: neither dW nor form.dgrad_reads_input.
    read: x as the forward product read it, in place of x where form.is_from_fprop("wgrad").
    asks_weight: somebody asks for dW.
    """
    dx = _input_gradient(x, weight, grad, form, draws, delayed).to(grad.dtype)
    source, dw = x if read is None else read.elements, None
    if asks_weight and source is not None:
        dw = _weight_gradient(source, weight, grad, form, draws, delayed, read)
    return dx, dw, grad.to(torch.float32).sum(0)


def _input_gradient(
    x: Tensor | None, weight: Tensor, grad: Tensor, form: LinearForm, draws: Draws,
    delayed: DelayedScales,
) -> Tensor:
    qdy, mean = _centered_operand("dgrad.grad", grad, form, draws, delayed)
    qw = layer_operand("dgrad.weight", weight, form, draws, delayed)
    y = product(qdy, qw, form.dgrad, bias=_product_of_mean(mean, "dgrad.grad", form, draws, qw))
    if x is not None:
        y = _passed(y, "fprop.input", x, form, draws, delayed)
    y = _turned_back(y, "dgrad", form, draws, weight.shape[1])
    y = _narrowed(y, "dgrad", form, draws)
    return round_to_bf16(y) if _rounds(form.dgrad, grad) else y


def _weight_gradient(
    x: Tensor, weight: Tensor, grad: Tensor, form: LinearForm, draws: Draws,
    delayed: DelayedScales, read: Operand | None,
) -> Tensor:
    cols = weight.shape[1]
    qdy, of_dy = _centered_operand("wgrad.grad", grad, form, draws, delayed)
    qx, of_x = _centered_operand("wgrad.input", x[:, :cols], form, draws, delayed, read)
    y = product(qdy, qx, form.wgrad)
    if of_dy is not None and of_x is not None:
        y = y + (of_dy * float(grad.shape[0])).t() * of_x
    y = _passed(y, "fprop.weight", weight, form, draws, delayed)
    return _turned_back(y, "wgrad", form, draws, cols)


def _rounds(gemm: GemmForm, given: Tensor) -> bool:
    return gemm.output == "bf16" or given.dtype == torch.bfloat16
