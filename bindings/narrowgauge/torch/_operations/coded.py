"""Moments that are stored otherwise than as one element times a scale: as codes of a map, or as a
power of each block's values. The steps are those of src/backend/ref/update/coded.cc, the result has
the same bits. [linear §9]
"""

from __future__ import annotations

from functools import lru_cache
from math import frexp

import torch
from torch import Tensor

from .bits import fp32, inverse, magnitude
from .blocks import Blocks, largest, spread
from .functions import exp, log

# A map of codes ---------------------------------------------------------------------------------


@lru_cache(maxsize=None)
def _map(is_positive: bool) -> tuple[list[float], list[float]]:
    """The values of the 256 codes, and what lies halfway from each to the next, FP32.

    Decade i of 7 has the middles of 2^i parts of [1/10, 1] · 10^(i - 6), of positive values alone
    of 2^(i + 1); then there is 1. [src/format/dynamic_map.h]
    """
    above = []
    for i in range(7):
        n = 2 ** (i + 1 if is_positive else i)
        above += [(2.0 * n + 9.0 * (2 * j + 1)) / (20.0 * n * 10.0 ** (6 - i)) for j in range(n)]
    below = [] if is_positive else [-x for x in reversed(above)]
    values = [fp32(x) for x in (*below, 0.0, *above, 1.0)]
    return values, [fp32((a + b) / 2) for a, b in zip(values, values[1:])]


def code_of_zero(is_positive: bool) -> int:
    """In the map."""
    return 0 if is_positive else 127


def mapped(x: Tensor, blocks: Blocks, is_positive: bool) -> tuple[Tensor, Tensor]:
    """Codes (rows, cols), uint8, and the scales of blocks (down, across)."""
    split = blocks.split(x)
    amax = largest(_magnitudes(split))
    scale = torch.where(amax == 0, 1.0, amax)
    y = torch.where(split == 0, 0.0, split * spread(inverse(scale))).clamp(-1, 1)
    codes = torch.bucketize(y, x.new_tensor(_map(is_positive)[1]))
    return blocks.join(codes).to(torch.uint8), scale


def of_map(codes: Tensor, scale: Tensor, blocks: Blocks, is_positive: bool) -> Tensor:
    """The values of codes (rows, cols)."""
    return scale.new_tensor(_map(is_positive)[0])[codes.to(torch.int64)] * blocks.each(scale)


# Powers of blocks -------------------------------------------------------------------------------

#: Of the range of E4M3, from its largest number down.
_LOG_RANGE = float(log(torch.full((), 448.0 * 448.0 / 2, dtype=torch.float64)))
#: E4M3's numbers, but its zero, are (1 + sixteenths/16) · 2^exponent, and what lies halfway too.
_CODES = 127
_EXPONENTS = range(-10, 9)


def expanded(x: Tensor, blocks: Blocks) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Codes (rows, cols), uint8, and scale, power and center of blocks (down, across)."""
    split = blocks.split(x)
    a = _magnitudes(split)
    expansion = _expansion(largest(a), torch.where(a == 0, torch.inf, a).amin((1, 3)))
    halfway = _powers(*expansion, [(a + b) / 2 for a, b in zip(_numbers(), _numbers()[1:])])
    nearest = halfway.to(torch.float32)
    limits = nearest.view(torch.int32) - (nearest > halfway).to(torch.int32)
    lines = split.reshape(-1, blocks.width)  # of blocks, a row high
    below = torch.searchsorted(limits, magnitude(lines), out_int32=True)
    below = torch.where(torch.isnan(lines), _CODES, below)
    codes = below | (lines.view(torch.int32) >> 31 & 0x80)
    return blocks.join(codes.reshape(split.shape)).to(torch.uint8), *expansion


def of_powers(
    codes: Tensor, scale: Tensor, power: Tensor, center: Tensor, blocks: Blocks
) -> Tensor:
    """The values of codes (rows, cols)."""
    values = _powers(scale, power, center, _numbers()[1:]).to(torch.float32)
    zero = torch.zeros_like(values[:, :1])
    values = torch.cat([zero, values, torch.full_like(zero, torch.nan)], 1)  # (blocks, 128)
    split = blocks.split(codes.to(torch.int64))
    lines = split.reshape(-1, blocks.width)
    found = values.gather(1, lines & 0x7F)
    return blocks.join(torch.where(lines >= 0x80, -found, found).reshape(split.shape))


def _expansion(most: Tensor, least: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Scale, power and center of blocks: of the largest |x|, and the smallest that is not zero,
    infinite where there is none. [src/format/expansion.h]"""
    high = most + 1e-30
    low = torch.where(torch.isinf(least), 0.0, least) + 1e-30
    wide_high, wide_low = high.to(torch.float64), low.to(torch.float64)
    steps = torch.floor(16.0 * _LOG_RANGE / log(wide_high / wide_low))
    power = torch.where(high != low, steps / 16.0, 1.0).to(torch.float32)
    center = (wide_high.sqrt() * wide_low.sqrt()).to(torch.float32)
    rise = log(wide_high) - log(center.to(torch.float64))
    top = exp(power.to(torch.float64) * rise)
    return (top / 448.0).to(torch.float32), power, center


def _powers(scale: Tensor, power: Tensor, center: Tensor, numbers: list[float]) -> Tensor:
    """(number · scale)^(1/power) · center of each block, (blocks, numbers), FP64: the product of a
    factor for the sixteenths of a number and one for its power of two."""
    scale, power, center = (of.to(torch.float64).reshape(-1, 1) for of in (scale, power, center))
    inverse_power = 1.0 / power
    parts = scale.new_tensor([[1 + i / 16 for i in range(16)]])
    sixteenths = exp((log(parts) + log(scale)) * inverse_power) * center
    step = log(torch.full_like(scale, 2.0)) * inverse_power
    up, down = exp(step), exp(-step)
    exponents = {0: torch.ones_like(scale)}
    for e in range(1, _EXPONENTS.stop):
        exponents[e] = exponents[e - 1] * up
    for e in range(-1, _EXPONENTS.start - 1, -1):
        exponents[e] = exponents[e + 1] * down
    columns = torch.cat([exponents[e] for e in _EXPONENTS], 1)
    places = [_place(number) for number in numbers]
    left = sixteenths[:, [i for i, _ in places]]
    return left * columns[:, [e - _EXPONENTS.start for _, e in places]]


def _numbers() -> list[float]:
    """E4M3's, from 0 to 448."""
    return [
        (m if e == 0 else m + 8) * 2.0 ** (max(e, 1) - 10) for e in range(16) for m in range(8)
    ][:_CODES]  # fmt: skip


def _place(number: float) -> tuple[int, int]:
    """Sixteenths and exponent of a number above 0."""
    half, exponent = frexp(number)  # in [½, 1)
    return int((2 * half - 1) * 16), exponent - 1


def _magnitudes(x: Tensor) -> Tensor:
    """Of NaN zero."""
    return torch.where(torch.isnan(x), 0.0, x.abs())
