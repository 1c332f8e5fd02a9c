"""Weights with a residual: what rounding took off, in units of the ulp of the weight's element over
2^bits, beside each. [recipes §5; src/backend/ref/update/residual.cc]"""

from __future__ import annotations

import torch
from torch import Tensor

from .bits import exponent_and_fraction, magnitude, power_of_two
from .blocks import Blocks, spread
from .elements import Element
from .kept import Kept
from .stored import StoredForm, elements_of, integers, load, scale_of, with_elements


def with_residual(value: Kept, carry: Kept, of: StoredForm, rests: StoredForm) -> Tensor:
    """w + c, rounded once."""
    q = elements_of(carry, rests).to(torch.float64)
    unit = _unit(value, elements_of(value, of), of, rests)
    return (load(value, of).to(torch.float64) + q * unit).to(torch.float32)


def split(
    x: Tensor, value: Kept, of: StoredForm, rests: StoredForm, random: Tensor
) -> tuple[Kept, Kept]:
    """x, which the value was rounded from, as that and the residual, which may move it on to the
    next number. random: 16 bits of each."""
    element, half = of.form.element, 1 << rests.form.element.bits - 1
    elements = elements_of(value, of)
    unit = _unit(value, elements, of, rests)
    off = x.to(torch.float64) - load(value, of).to(torch.float64)
    has_rest = (unit > 0) & ~torch.isnan(x)
    off = torch.where(has_rest, off / torch.where(has_rest, unit, 1.0), 0.0)
    q = torch.floor(off + random.to(torch.float64) * 2.0**-16).clamp(-half, half)
    is_up = q == half
    is_last = elements.abs() == element.max
    ulp, following = _ulp(elements, element), _next(elements, element)
    is_wider = _ulp(following, element) > ulp
    q = torch.where(is_up & is_last, float(half - 1), q)
    moves = is_up & ~is_last
    q = torch.where(moves, torch.where(is_wider, -half // 2, -half).to(torch.float64), q)
    moved = torch.where(moves, following, elements)
    return with_elements(value, of, moved), integers(q, rests)


def _unit(value: Kept, elements: Tensor, of: StoredForm, rests: StoredForm) -> Tensor:
    """What 1 of the residual stands for beside each element, FP64; exact."""
    ulp = _ulp(elements, of.form.element).to(torch.float64)
    scale = scale_of(value, of)
    if scale is not None:
        whole = scale if value.tensor_scale is None else scale * value.tensor_scale
        blocks = Blocks.of(of.form.block, of.rows, of.cols)
        ones = torch.ones(of.rows, of.cols, dtype=torch.float64, device=ulp.device)
        ulp = ulp * blocks.join(blocks.split(ones) * spread(whole.to(torch.float64)))
    return ulp * 2.0**-rests.form.element.bits


def _ulp(elements: Tensor, element: Element) -> Tensor:
    """The spacing of the binade of each; of subnormals the smallest."""
    if element.is_integer:
        return torch.full_like(elements, 2.0**-element.mantissa_bits)
    # NaN and infinities have one, too, that nobody reads.
    binade = exponent_and_fraction(magnitude(elements).clamp(1, 0x7F7FFFFF))[0]
    return power_of_two(binade.clamp(min=1 - element.bias) - element.mantissa_bits)


def _next(elements: Tensor, element: Element) -> Tensor:
    """The next larger number of one that is not the largest."""
    ulp = _ulp(elements, element)
    if element.is_integer:
        return elements + ulp
    # Toward zero a power of two is the first of its binade: below it the spacing is half, unless
    # it is that of subnormals.
    bits = magnitude(elements)
    least = (128 - element.bias) << 23
    is_first = ((bits & 0x7FFFFF) == 0) & (bits > least)
    return elements + torch.where((elements < 0) & is_first, ulp * 0.5, ulp)
