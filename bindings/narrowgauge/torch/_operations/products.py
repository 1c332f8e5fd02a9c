"""Products of operands: y = a · bᵀ, scales and prescales undone at the end.

Sums run as torch has them, so results are those of the trainer within (K + 32) · 2^-24 of the
summed magnitudes, but for the FP8 products of cards, which add by their own rule (Hopper's keep
some 14 bits of each sum); scales and what comes behind them are applied in its order.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .bits import round_to_bf16
from .form import GemmForm
from .operand import Operand

#: Elements that torch._scaled_mm takes, by torch's names.
_FP8 = {"e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2"}


def product(
    a: Operand, b: Operand, form: GemmForm, *, bias: Tensor | None = None, to_bf16: bool = False
) -> Tensor:
    """y (rows of a, rows of b), FP32; to_bf16: rounded once to BF16 at the very end."""
    y = _fp8_product(a, b) if _takes_fp8(a, b) else _matmul(_factor(a, b), _factor(b, a))
    y = _times_late_scales(y, a, b, form.alpha)
    if bias is not None:
        y = y + bias.to(torch.float32)
    return round_to_bf16(y) if to_bf16 else y


def _takes_fp8(a: Operand, b: Operand) -> bool:
    """Whether both are FP8 that one number of a row or tensor scales, and their device multiplies
    such: by sixteens of rows and columns, and not two of E5M2."""
    names = {a.form.element.name, b.form.element.name}
    if not names <= _FP8.keys() or names == {"e5m2"} or a.form.has_tiles or b.form.has_tiles:
        return False
    (m, k), n = a.elements.shape, b.elements.shape[0]
    return k % 16 == 0 and n % 16 == 0 and min(m, n, k) > 0 and _multiplies_fp8(a.elements.device)


def _multiplies_fp8(device: torch.device) -> bool:
    """Whether torch._scaled_mm is there for FP8: NVIDIA's cards from sm_89 on."""
    if device.type != "cuda" or torch.version.cuda is None or not hasattr(torch, "_scaled_mm"):
        return False
    return torch.cuda.get_device_capability(device) >= (8, 9)


def _fp8_product(a: Operand, b: Operand) -> Tensor:
    left, right = (of.elements.to(getattr(torch, _FP8[of.form.element.name])) for of in (a, b))
    one = torch.ones((), device=left.device)
    return torch._scaled_mm(
        left.contiguous(), right.contiguous().t(), scale_a=one, scale_b=one,
        out_dtype=torch.float32, use_fast_accum=False,
    )  # fmt: skip


def _factor(operand: Operand, other: Operand) -> Tensor:
    """What is summed of an operand: elements with the scales of tiles, in BF16 where both fit."""
    form = operand.form
    values = operand.factors() if form.has_tiles else operand.elements
    narrow = form.product_fits_bf16 and other.form.product_fits_bf16
    # Integers that would be added in FP32 units of a matrix unit's choosing stay exact in FP32.
    if form.element.is_integer and other.form.element.is_integer:
        narrow = False
    return values.to(torch.bfloat16 if narrow else torch.float32)


def _matmul(a: Tensor, b: Tensor) -> Tensor:
    if a.dtype == torch.bfloat16 and a.device.type == "cuda":
        return torch.mm(a, b.t(), out_dtype=torch.float32)
    # Elsewhere a product of BF16 is rounded to BF16.
    return torch.mm(a.to(torch.float32), b.to(torch.float32).t())


def _times_late_scales(y: Tensor, a: Operand, b: Operand, alpha: float) -> Tensor:
    """Scales of rows and tensors, with which products are multiplied as one number."""
    left, right = _late_scale(a), _late_scale(b)
    if left is not None and right is not None:
        late = left * right.t()
    elif left is not None:
        late = left
    elif right is not None:
        late = right.t()
    else:
        return y if alpha == 1.0 else y * alpha
    return y * (late if alpha == 1.0 else late * alpha)


def _late_scale(operand: Operand) -> Tensor | None:
    """(rows, 1) or (1, 1)."""
    early = None if operand.form.has_tiles else operand.scale
    if operand.tensor_scale is None or operand.form.has_folded_scales:
        return early
    tensor = operand.tensor_scale
    tensor = tensor if tensor.dim() == 2 else tensor.reshape(1, 1)
    return tensor if early is None else early * tensor
