"""Operands whose blocks have one of two elements, which the sign of their scale says; where it is
negative elements are negated, too, so that what multiplies need not know. [linear §7]"""

from __future__ import annotations

from typing import Optional

import torch
from torch import Tensor

from . import elements as numbers
from .blocks import Blocks
from .form import OperandForm


def other_elements(y: Tensor, form: OperandForm, draw: Optional[numbers.Draw]) -> Tensor:
    """What values over their scales are rounded to by the second element, negated."""
    assert form.other is not None
    u = (y * form.to_other).clamp(-form.other.max, form.other.max)
    return -(numbers.rounded(u, form.other, draw) * form.from_other)


def codes_of(elements: Tensor, form: OperandForm, scale: Optional[Tensor]) -> Tensor:
    """Codes of an operand's elements, (rows, k) FP32; scale (down, across) of its blocks."""
    codes = numbers.codes(elements, form.element)
    if form.other is None:
        return codes
    integers = torch.round(-elements * form.to_other)
    return torch.where(_has_other(form, scale, codes), numbers.codes(integers, form.other), codes)


def elements_of_codes(code: Tensor, form: OperandForm, scale: Optional[Tensor]) -> Tensor:
    """The other way, of codes in int32."""
    elements = numbers.values_of(code, form.element)
    if form.other is None:
        return elements
    others = -(numbers.values_of(code, form.other) * form.from_other)
    return torch.where(_has_other(form, scale, code), others, elements)


def _has_other(form: OperandForm, scale: Optional[Tensor], of: Tensor) -> Tensor:
    """Of each value."""
    assert scale is not None
    return Blocks.of(form.block, *of.shape).each(scale) < 0
