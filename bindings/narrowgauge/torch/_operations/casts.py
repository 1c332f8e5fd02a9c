"""How the values of blocks are scaled and rounded, and which of several scales a block takes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Optional

import torch
from torch import Tensor

from .bits import INFINITY, inverse, magnitude, power_of_two, quotient
from .blocks import largest, spread
from .elements import Draw, rounded
from .form import OperandForm
from .lists import other_elements
from .scales import (
    e4m3_multiplier, e4m3_scale, e8m0_code, e8m0_exponent, encode_scale, integer_scale,
    nearby_exponent, two_levels,
)


@dataclass(frozen=True)
class Cast:
    """Of each block, (down, across)."""

    scale: Tensor  #: what elements are multiplied by; NaN where a block is NaN
    factor: Tensor  #: what values are multiplied by before they are rounded
    divides: bool = False  #: they are divided by it
    zero: Optional[Tensor] = None  #: where the scale is zero: elements are signed zeros
    nan: Optional[Tensor] = None  #: where it is NaN: elements are zero
    tensor: Optional[Tensor] = None  #: the tensor_scale that it is multiplied by, or (1, 1)
    is_other: bool = False  #: the second element of a list is tried


@dataclass(frozen=True)
class Source:
    """Values by blocks, what rounds them, and whether the operand is the source transposed."""

    values: Tensor
    form: OperandForm
    draw: Optional[Draw]
    transposed: bool
    rows: int  #: that there are: the last block may have fewer than others


def prescaled(source: Source) -> Tensor:
    """The values, each rounded once where the prescale is no power of two."""
    prescale = source.form.prescale
    return source.values if prescale == 1.0 else source.values * prescale


def scaled(source: Source, cast: Cast) -> Tensor:
    """What is rounded to numbers of the element."""
    z = source.values
    y = prescaled(source)
    factor = spread(cast.factor)
    y = quotient(y, factor) if cast.divides else y * factor
    if cast.zero is not None:
        y = torch.where(spread(cast.zero), torch.zeros_like(z).copysign(z), y)
    return y if cast.nan is None else torch.where(spread(cast.nan), 0.0, y)


def elements_of(source: Source, cast: Cast) -> Tensor:
    """The values as numbers of the element."""
    form = source.form
    y = scaled(source, cast)
    if cast.is_other:
        return other_elements(y, form, source.draw)
    if form.scale == "e4m3":
        y = y.clamp(-form.element.max, form.element.max)
    return rounded(y, form.element, source.draw, form.overflow, form.subnormals)


def e8m0_cast(source: Source) -> Cast:
    """A power of two for each block; that of a block with NaN or infinity is NaN."""
    form, element = source.form, source.form.element
    amax = largest(magnitude(source.values))
    if form.scale_of == "amax":
        exponent, is_zero = e8m0_exponent(form.scale_rule, amax, element), amax == 0
    else:
        t = _statistic(source, amax.view(torch.float32))
        exponent, is_zero = nearby_exponent(form.scale_rule, t), t == 0
    code = torch.where(is_zero, 0, e8m0_code(exponent))
    if form.scale_rule == "mse":
        following = torch.where(amax == 0, 0, e8m0_code(exponent + 1))
        is_better = _squared_error(source, following) < _squared_error(source, code)
        code = torch.where(is_better, following, code)
    nan = amax >= INFINITY
    scale = torch.where(nan, float("nan"), power_of_two(code - 127))
    return Cast(scale, power_of_two(127 - code), nan=nan)


def e4m3_casts(source: Source) -> tuple[list[Cast], Tensor]:
    """One for each fit, or element, and the tensor_scale () or those of its regions. Maxima skip
    NaN."""
    form = source.form
    bits = magnitude(source.values)
    amax = largest(torch.where(bits > INFINITY, 0, bits)).view(torch.float32)
    if form.tensor_block == "tensor":
        whole = amax.amax() if amax.numel() > 0 else amax.new_zeros(())
    else:
        whole = largest(form.regions_of_blocks(*amax.shape).split(amax))
    tensor, factor = two_levels(form, whole)
    by_block, block = (form.level_of_blocks(of, *amax.shape) for of in (tensor, factor))

    def of(refit: float) -> Cast:
        scale = e4m3_scale(form.scale_rule, amax, block, refit)
        if form.rounding == "eden":
            scale = torch.where(scale == 0, 1.0, scale)
        factor = e4m3_multiplier(scale, by_block)
        return Cast(scale, factor, zero=scale == 0, tensor=by_block)

    casts = [of(refit) for refit in form.refits]
    if form.other is not None:
        casts.append(replace(casts[0], scale=-casts[0].scale, is_other=True))
    return casts, tensor


def fp32_casts(source: Source) -> list[Cast]:
    """One for each fit: FP32 numbers or powers of two."""
    form = source.form
    amax = largest(magnitude(source.values)).view(torch.float32)
    is_power = form.scale == "pow2"
    if form.scale_of == "mean_abs":
        is_scale = torch.isfinite(amax)
        if form.element.name != "ternary":  # whose mean is at least 1e-5
            is_scale &= amax > 0
        scale = torch.where(is_scale, _statistic(source, amax), 1.0)
        return [Cast(scale, scale, divides=True)]
    if form.element.is_integer:
        scales = [integer_scale(amax, fit, is_power) for fit in form.fits]
        return [Cast(scale, scale, divides=True) for scale in scales]
    factors = [encode_scale(amax, fit, is_power) for fit in form.fits]
    return [Cast(inverse(factor), factor) for factor in factors]


def _statistic(source: Source, amax: Tensor) -> Tensor:
    """What the scale of each block is made of in place of amax, FP32. [linear §6]"""
    form, x = source.form, source.values.to(torch.float64)
    down, height, _, width = x.shape
    row = torch.arange(down * height, device=x.device).view(down, height, 1, 1)
    is_there = (row < source.rows).to(torch.float64)
    count = is_there.sum((1, 3)) * width
    if form.scale_of == "mean_abs":
        mean = (x.abs().sum((1, 3)) / count).to(torch.float32)
        return mean.clamp(min=1e-5) if form.element.name == "ternary" else mean
    off = (x - spread(x.sum((1, 3)) / count)) * is_there
    deviation = ((off * off).sum((1, 3)) / count).sqrt()
    t = (2.92247856 * deviation / form.element.max).to(torch.float32)
    return torch.where(t > 0, t, quotient(amax, torch.full_like(amax, form.element.max)))


def best(source: Source, casts: list[Cast]) -> tuple[Cast, Tensor]:
    """Of each block the cast with the smallest error, the first of equals; its elements."""
    chosen, elements = casts[0], elements_of(source, casts[0])
    if len(casts) == 1:
        return chosen, elements
    least = _error(source, elements, chosen)
    for cast in casts[1:]:
        others = elements_of(source, cast)
        error = _error(source, others, cast)
        is_better = error < least
        least = torch.where(is_better, error, least)
        elements = torch.where(spread(is_better), others, elements)
        chosen = _either(is_better, cast, chosen)
    return chosen, elements


def _either(is_first: Tensor, first: Cast, second: Cast) -> Cast:
    """Of each block one of two casts of one form, whose scales are no NaN."""
    zero = None
    if first.zero is not None and second.zero is not None:
        zero = torch.where(is_first, first.zero, second.zero)
    scale = torch.where(is_first, first.scale, second.scale)
    factor = torch.where(is_first, first.factor, second.factor)
    return Cast(scale, factor, first.divides, zero, tensor=first.tensor)


def _error(source: Source, elements: Tensor, cast: Cast) -> Tensor:
    """How far decoded values are from those of each block, by `select`, FP64."""
    decoded = elements * spread(cast.scale)
    if cast.tensor is not None:
        decoded = decoded * spread(cast.tensor)
    off = (decoded.to(torch.float64) - source.values.to(torch.float64)).abs()
    if source.form.select == "max":  # NaN is no largest error
        return largest(torch.where(torch.isnan(off), 0.0, off))
    return _ordered_sum(off * off if source.form.select == "mse" else off, source.transposed)


def _squared_error(source: Source, code: Tensor) -> Tensor:
    """Of E8M0 blocks under these codes, without prescale or draw, in the operand's own order."""
    scaled = source.values * spread(power_of_two(127 - code))
    form = source.form
    elements = rounded(scaled, form.element, None, subnormals=form.subnormals).to(torch.float64)
    scale = spread(power_of_two(code - 127)).to(torch.float64)
    off = source.values.to(torch.float64) - elements * scale
    return _ordered_sum(off * off, False)


def _ordered_sum(x: Tensor, transposed: bool) -> Tensor:
    """Over each block in the order of the untransposed source, rows first, (down, across): a tile
    of W and that of Wᵀ have the same sum."""
    inside = (3, 1) if transposed else (1, 3)
    terms = x.permute(0, 2, *inside).flatten(2)
    if terms.shape[2] > 1024:  # a tensor or its rows
        return terms.cumsum(2)[..., -1]
    total = torch.zeros_like(terms[..., 0])
    for place in range(terms.shape[2]):
        total = total + terms[..., place]
    return total
