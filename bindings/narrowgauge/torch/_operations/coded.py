"""Moments that are stored otherwise than as one element times a scale: as codes of a map, or as a
power of each block's values. The steps are those of src/backend/ref/update/coded.cc, the result has
the same bits. [linear §9]
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from .bits import fp32, inverse, magnitude
from .blocks import Blocks, spread
from .logarithm import exponential, logarithm

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
    amax = _finite(split).amax((1, 3))
    scale = torch.where(amax == 0, 1.0, amax)
    y = torch.where(split == 0, 0.0, split * spread(inverse(scale))).clamp(-1, 1)
    codes = torch.bucketize(y, x.new_tensor(_map(is_positive)[1]))
    return blocks.join(codes).to(torch.uint8), scale


def of_map(codes: Tensor, scale: Tensor, blocks: Blocks, is_positive: bool) -> Tensor:
    """The values of codes (rows, cols)."""
    return scale.new_tensor(_map(is_positive)[0])[codes.to(torch.int64)] * blocks.each(scale)


# Powers of blocks -------------------------------------------------------------------------------

#: Of the range of E4M3, from its largest number down.
_LOG_RANGE = float(logarithm(torch.full((), 448.0 * 448.0 / 2, dtype=torch.float64)))
#: E4M3's numbers, but its zero, are (1 + sixteenths/16) · 2^exponent, and what lies halfway too.
_CODES = 127
_EXPONENTS = range(-10, 9)


def expanded(x: Tensor, blocks: Blocks) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Codes (rows, cols), uint8, and scale, power and center of blocks (down, across)."""
    split = blocks.split(x)
    a = _finite(split)
    expansion = _expansion(a.amax((1, 3)), torch.where(a == 0, torch.inf, a).amin((1, 3)))
    halfway = _powers(*expansion, [(a + b) / 2 for a, b in zip(_numbers(), _numbers()[1:])])
    nearest = halfway.to(torch.float32)
    limits = nearest.view(torch.int32) - (nearest > halfway).to(torch.int32)
    lines = split.transpose(1, 2).reshape(limits.shape[0], -1)  # (blocks, values)
    below = torch.searchsorted(limits, magnitude(lines), out_int32=True)
    below = torch.where(torch.isnan(lines), _CODES, below)
    codes = below | (lines.view(torch.int32) >> 31 & 0x80)
    down, height, across, width = split.shape
    codes = codes.reshape(down, across, height, width).transpose(1, 2)
    return blocks.join(codes).to(torch.uint8), *expansion


def of_powers(
    codes: Tensor, scale: Tensor, power: Tensor, center: Tensor, blocks: Blocks
) -> Tensor:
    """The values of codes (rows, cols)."""
    values = _powers(scale, power, center, _numbers()[1:]).to(torch.float32)
    ends = values.new_tensor([[0.0, torch.nan]]).expand(values.shape[0], 2)
    values = torch.cat([ends[:, :1], values, ends[:, 1:]], 1)  # (blocks, 128)
    split = blocks.split(codes.to(torch.int64))
    down, height, across, width = split.shape
    lines = split.transpose(1, 2).reshape(values.shape[0], -1)
    found = values.gather(1, lines & 0x7F)
    found = torch.where(lines >= 0x80, -found, found)
    return blocks.join(found.reshape(down, across, height, width).transpose(1, 2))


def _expansion(most: Tensor, least: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Scale, power and center of blocks: of the largest |x|, and the smallest that is not zero,
    infinite where there is none. [src/format/expansion.h]"""
    high = most + 1e-30
    low = torch.where(torch.isinf(least), 0.0, least) + 1e-30
    wide_high, wide_low = high.to(torch.float64), low.to(torch.float64)
    steps = torch.floor(16.0 * _LOG_RANGE / logarithm(wide_high / wide_low))
    power = torch.where(high != low, steps / 16.0, 1.0).to(torch.float32)
    center = (wide_high.sqrt() * wide_low.sqrt()).to(torch.float32)
    rise = logarithm(wide_high) - logarithm(center.to(torch.float64))
    top = exponential(power.to(torch.float64) * rise)
    return (top / 448.0).to(torch.float32), power, center


def _powers(scale: Tensor, power: Tensor, center: Tensor, numbers: list[float]) -> Tensor:
    """(number · scale)^(1/power) · center of each block, (blocks, numbers), FP64: the product of a
    factor for the sixteenths of a number and one for its power of two."""
    scale, power, center = (of.to(torch.float64).reshape(-1, 1) for of in (scale, power, center))
    inverse_power = 1.0 / power
    parts = scale.new_tensor([[1 + i / 16 for i in range(16)]])
    sixteenths = exponential((logarithm(parts) + logarithm(scale)) * inverse_power) * center
    step = logarithm(torch.full_like(scale, 2.0)) * inverse_power
    up, down = exponential(step), exponential(-step)
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
    exponent = 0
    while number >= 2.0:
        number, exponent = number / 2, exponent + 1
    while number < 1.0:
        number, exponent = number * 2, exponent - 1
    return int((number - 1) * 16), exponent


def _finite(x: Tensor) -> Tensor:
    """Magnitudes, of NaN zero."""
    return torch.where(torch.isnan(x), 0.0, x.abs())
