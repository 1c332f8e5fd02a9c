"""Numbers of an element format: rounding FP32 to them, and their codes. [formats §1, §2, §6]"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Optional

import torch
from torch import Tensor

from .bits import INFINITY, magnitude


@dataclass(frozen=True)
class Element:
    """A row of the table of formats.

    kind: "floating" or "integer", whose values are i·2^-mantissa_bits.
    specials: "ieee", "fn", "fnuz" or "none", as src/format/table.h has them.
    """

    name: str
    kind: str
    bits: int
    exponent_bits: int
    mantissa_bits: int
    bias: int
    specials: str
    # Made of those above, whatever is given: torch before 2.7 gives them when it compiles.
    max: float = 0.0  #: largest number
    max_exponent: int = 0  #: floor(log2(max))
    max_code: int = 0  #: of it
    inf_code: Optional[int] = None
    nan_code: Optional[int] = None

    def __post_init__(self) -> None:
        floating = self.kind == "floating"
        if floating and self.exponent_bits == 8 and self.bias != 127:
            raise ValueError(f"element: {self.name}: exponents reach beyond those of FP32")
        ones = (1 << self.exponent_bits + self.mantissa_bits) - 1
        inf = nan = None
        largest = ones
        if not floating:
            largest = (1 << self.bits - 1) - 1
        elif self.specials == "ieee":
            inf = ones & ~((1 << self.mantissa_bits) - 1)
            largest, nan = inf - 1, ones if self.mantissa_bits > 0 else None
        elif self.specials == "fn":
            largest, nan = ones - 1, ones
        elif self.specials == "fnuz":
            nan = self.sign_bit
        derived = {"max_code": largest, "inf_code": inf, "nan_code": nan}
        for name, value in derived.items():
            object.__setattr__(self, name, value)
        top = _number(self, largest)
        object.__setattr__(self, "max", top)
        object.__setattr__(self, "max_exponent", _floor_log2(top))

    @property
    def is_integer(self) -> bool:
        return self.kind == "integer"

    @property
    def sign_bit(self) -> int:
        return 1 << self.bits - 1

    @property
    def has_exponents_of_fp32(self) -> bool:
        """It is FP32 with fewer bits behind the point."""
        return self.kind == "floating" and self.exponent_bits == 8

    @property
    def significant_bits(self) -> int:
        return self.bits - 1 if self.is_integer else self.mantissa_bits + 1


@dataclass(frozen=True)
class Draw:
    """R of each element, uniform in [0, 2^bits), for stochastic rounding."""

    integers: Tensor
    bits: int


def rounded(
    y: Tensor, element: Element, draw: Draw | None, overflow: str = "saturate",
    subnormals: str = "keep",
) -> Tensor:
    """The numbers that y (FP32) is rounded to: nearest even, or as drawn."""
    if element.is_integer:
        return _integers(y, element, draw)
    if element.has_exponents_of_fp32:
        size = _cut(y, element, draw)
    else:
        size = on_grid(y, element, lambda t: _to_integer(t, draw, element.mantissa_bits + 1))
    size = _limited(size, y, element, overflow)
    if subnormals == "flush":
        size = torch.where(size < 2.0 ** (1 - element.bias), 0.0, size)
    signed = size.copysign(y)
    if element.specials == "fnuz":  # has one zero
        signed = torch.where(size == 0, size, signed)
    return torch.where(torch.isnan(y), _of_nan(element), signed)


def on_grid(y: Tensor, element: Element, to_integer: Callable[[Tensor], Tensor]) -> Tensor:
    """|y| as a multiple of the spacing at its place, `to_integer` of which is taken.

    With e = max(floor log2|y|, 1 - bias) the spacing is 2^(e - mantissa_bits): the factors are
    powers of two, so only to_integer rounds. What it takes up into the next binade is right there.
    """
    top = 2.0 ** (element.max_exponent + 1)  # above the largest: saturates whatever lies beyond
    size = y.abs().clamp(max=top)
    least = (128 - element.bias) << 23
    exponent = (size.view(torch.int32) & INFINITY).clamp(least, INFINITY)  # bits of 2^e
    binades = element.mantissa_bits << 23
    up, down = (254 << 23) - exponent + binades, exponent - binades
    return to_integer(size * up.view(torch.float32)) * down.view(torch.float32)


def codes(values: Tensor, element: Element) -> Tensor:
    """Codes of what `rounded` gives, in uint8, or in uint16 where they have more than 8 bits."""
    if element.is_integer:
        code = (values * 2.0**element.mantissa_bits).to(torch.int32)
        return _stored(code & (1 << element.bits) - 1, element)
    bits = magnitude(values)
    cut = 23 - element.mantissa_bits
    code = (bits >> cut) - ((127 - element.bias) << element.mantissa_bits)
    if not element.has_exponents_of_fp32:
        steps = (values.abs() * 2.0 ** (element.mantissa_bits + element.bias - 1)).to(torch.int32)
        code = torch.where(bits < (128 - element.bias) << 23, steps, code)
    if element.inf_code is not None:
        code = torch.where(bits == INFINITY, element.inf_code, code)
    code = torch.where(values.view(torch.int32) < 0, code | element.sign_bit, code)
    if element.nan_code is not None:
        code = torch.where(bits > INFINITY, element.nan_code, code)
    return _stored(code, element)


def values_of(code: Tensor, element: Element) -> Tensor:
    """FP32 numbers of codes, int32 from 0 on, that `codes` gives."""
    if element.is_integer:
        signed = torch.where(code >= element.sign_bit, code - (1 << element.bits), code)
        return signed.to(torch.float32) * 2.0**-element.mantissa_bits
    size = code & element.sign_bit - 1
    cut = 23 - element.mantissa_bits
    values = (size + ((127 - element.bias) << element.mantissa_bits) << cut).view(torch.float32)
    if not element.has_exponents_of_fp32:
        steps = size.to(torch.float32) * 2.0 ** (1 - element.bias - element.mantissa_bits)
        values = torch.where(size >> element.mantissa_bits == 0, steps, values)
    if element.inf_code is not None:
        values = torch.where(size == element.inf_code, float("inf"), values)
    values = torch.where(code >= element.sign_bit, -values, values)
    if element.nan_code is not None:
        is_nan = (code if element.specials == "fnuz" else size) == element.nan_code
        values = torch.where(is_nan, float("nan"), values)
    return values


def _to_integer(t: Tensor, draw: Draw | None, bits: int) -> Tensor:
    """t, |t| <= 2^bits, to the nearest integer, or up iff floor(f·2^r) + R >= 2^r."""
    if draw is None:
        return torch.round(t)
    scaled = torch.floor(t * 2.0**draw.bits)
    if bits + draw.bits < 24:  # the sum is exact in FP32
        return torch.floor((scaled + draw.integers) * 2.0**-draw.bits)
    return (scaled.to(torch.int64) + draw.integers >> draw.bits).to(torch.float32)


def _cut(y: Tensor, element: Element, draw: Draw | None) -> Tensor:
    """|y| with fewer bits: FP32's own exponent and subnormals are the element's."""
    dropped = 23 - element.mantissa_bits
    bits = magnitude(y)
    if dropped == 0:
        return bits.view(torch.float32)
    if draw is None:
        more = (1 << dropped - 1) - 1 + (bits >> dropped & 1)
    elif draw.bits > dropped:  # what is dropped decides by its own bits
        more = (draw.integers >> draw.bits - dropped).to(torch.int32)
    else:
        more = draw.integers << dropped - draw.bits
    # NaN would carry into the sign.
    return (bits.clamp(max=INFINITY) + more & -(1 << dropped)).view(torch.float32)


def _limited(size: Tensor, y: Tensor, element: Element, overflow: str) -> Tensor:
    """What becomes of magnitudes above the largest. [formats §2.2]"""
    if overflow == "saturate" or (element.inf_code is None and element.nan_code is None):
        return size.clamp(max=element.max)
    special = float("inf") if element.inf_code is not None else float("nan")
    return torch.where((size > element.max) | torch.isinf(y), special, size)


def _integers(y: Tensor, element: Element, draw: Draw | None) -> Tensor:
    """Stochastic integers go toward minus infinity, MXINT8's magnitude toward zero. [formats §6]"""
    largest = element.max_code
    t = (y * 2.0**element.mantissa_bits).clamp(-largest - 1.0, largest + 1.0)
    if draw is not None and element.mantissa_bits > 0:
        t = _to_integer(t.abs(), draw, element.bits).copysign(t)
    else:
        t = _to_integer(t, draw, element.bits)
    t = torch.where(torch.isnan(y), float(largest), t)
    # By way of int32, which has one zero.
    t = t.to(torch.int32).clamp(-largest, largest).to(torch.float32)
    return t * 2.0**-element.mantissa_bits


def _of_nan(element: Element) -> float:
    return element.max if element.nan_code is None else float("nan")


def _stored(code: Tensor, element: Element) -> Tensor:
    if element.bits <= 8:
        return code.to(torch.uint8)
    return code.to(torch.int16).view(torch.uint16)


def _number(element: Element, code: int) -> float:
    """Of a code without sign that stands for a finite number."""
    if element.is_integer:
        return code * 2.0**-element.mantissa_bits
    exponent, fraction = divmod(code, 1 << element.mantissa_bits)
    hidden = 1 << element.mantissa_bits if exponent > 0 else 0
    unit = 2.0 ** (max(exponent, 1) - element.bias - element.mantissa_bits)
    return (fraction + hidden) * unit


def _floor_log2(x: float) -> int:
    exponent = 0
    while 2.0 ** (exponent + 1) <= x:
        exponent += 1
    while 2.0**exponent > x:
        exponent -= 1
    return exponent
