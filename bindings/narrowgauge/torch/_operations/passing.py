"""How much of a gradient the rounding of a forward operand lets through. [linear §6]"""

from __future__ import annotations

import torch
from torch import Tensor

from .bits import INFINITY
from .elements import Element
from .form import OperandForm
from .functions import power


def passing_factor(u: Tensor, form: OperandForm) -> Tensor:
    """What gradients of values that were rounded as u (FP32) are multiplied by, FP32.

    `clip`: 1, or 0 from the largest element on. `dge`: the slope of its staircase, at most dge_max;
    that of src/format/gradient_factor.h, whose logarithm and power are FP32's, within some ulps.
    """
    element, a = form.element, u.abs()
    if form.gradient == "clip":
        return (a < element.max).to(torch.float32)
    below, gap = _gap(a, element)
    t = ((a - below) / (0.5 * gap) - 1.0).abs()
    is_middle = ~(t > 0)  # of two elements, where it is infinitely steep, or NaN
    bounded = torch.where(is_middle, 1.0, t).clamp(max=2.0**127)
    slope = power(bounded, 1.0 / form.dge_k - 1.0) / form.dge_k
    return torch.where(is_middle, form.dge_max, slope.clamp(max=form.dge_max))


def _gap(a: Tensor, element: Element) -> tuple[Tensor, Tensor]:
    """The element at or below each magnitude, and how far the next one is; beyond the last two
    these."""
    bits = element.bits - 2 if element.is_integer else element.mantissa_bits
    last_gap = 2.0 ** (element.max_exponent - bits)
    lowest = element.max_exponent if element.is_integer else 1 - element.bias
    last = element.max - last_gap
    inside = a.clamp(2.0**lowest, element.max)
    binade = (inside.view(torch.int32) & INFINITY).view(torch.float32)
    gap = torch.where(a < last, binade * 2.0**-bits, last_gap)
    return torch.where(a < last, torch.trunc(a / gap) * gap, last), gap
