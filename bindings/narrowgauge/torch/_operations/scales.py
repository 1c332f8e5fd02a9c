"""Scales from the largest magnitude of a block or a tensor, in FP32 and in the binding order.

[formats §3.2, §4.1, §5, §6; linear §4]
"""

from __future__ import annotations

import torch
from torch import Tensor

from .bits import (
    INFINITY, LARGEST, exponent_and_fraction, floor_log2, inverse, magnitude,
    power_of_two, quotient,
)
from .elements import Element, codes, on_grid, values_of
from .form import OperandForm

E4M3 = Element("e4m3", "floating", 8, 4, 3, 7, "fn")


def e8m0_exponent(rule: str, amax: Tensor, element: Element) -> Tensor:
    """Unclamped, of bits of a finite amax > 0; `mse` gives floor's."""
    exponent, fraction = exponent_and_fraction(amax)
    if rule == "even":
        exponent = exponent_and_fraction(amax + (1 << 22 - element.mantissa_bits))[0]
    elif rule == "rceil":
        exponent = exponent + (fraction > _fraction(element.max)).to(torch.int32)
    elif rule == "ceil":
        exponent = exponent + (fraction != 0).to(torch.int32)
    return exponent - element.max_exponent


def nearby_exponent(rule: str, t: Tensor) -> Tensor:
    """Unclamped, of a scale t > 0 itself; `even`: the nearest in log2."""
    exponent, fraction = exponent_and_fraction(t.view(torch.int32))
    if rule == "floor":
        return exponent
    significand = (fraction + (1 << 23)).to(torch.int64)
    is_up = significand * significand > 1 << 47 if rule == "even" else fraction != 0
    return exponent + is_up.to(torch.int32)


def e8m0_code(exponent: Tensor) -> Tensor:
    """Clamped to the finite codes."""
    return exponent.clamp(-127, 127) + 127


def scale_codes(scale: Tensor, kind: str) -> Tensor:
    """Codes of E8M0 or E4M3 scales in uint8; 0xFF of an E8M0 scale that is NaN."""
    if kind == "e8m0":
        return (scale.view(torch.int32) >> 23).to(torch.uint8)
    return codes(scale, E4M3)


def scale_values(code: Tensor, kind: str) -> Tensor:
    """FP32 scales of what scale_codes gives."""
    code = code.to(torch.int32)
    if kind == "e4m3":
        return values_of(code, E4M3)
    scale = torch.where(code == 0, 1 << 22, code << 23).view(torch.float32)
    return torch.where(code == 255, float("nan"), scale)


def two_levels(form: OperandForm, amax: Tensor) -> tuple[Tensor, Tensor]:
    """s_t and m of a tensor of that amax: a block's scale is E4M3(amax of the block · m)."""
    one = torch.ones_like(amax)
    encode = one
    if form.tensor_scale != "none":
        encode = quotient(torch.full_like(amax, form.reach), amax)
        # 0: amax is infinite
        encode = torch.where((amax > 0) & (encode > 0), encode.clamp(max=LARGEST), one)
    decode = inverse(encode)
    if form.tensor_scale == "pow2":
        exponent = floor_log2(decode)
        exponent = exponent + (power_of_two(exponent) < decode).to(torch.int32)
        exponent = exponent.clamp(min=-127)
        encode, decode = power_of_two(-exponent), power_of_two(exponent)
    return decode, encode * form.per_fit


def e4m3_scale(rule: str, amax: Tensor, block: Tensor, refit: float) -> Tensor:
    """The number of E4M3 for blocks of that amax; `block`: m, `refit`: first fit over this."""
    g = amax * block * refit
    g = torch.where(g < 448.0, g, 448.0)
    return on_grid(g, E4M3, torch.ceil if rule == "up" else torch.round).clamp(max=448.0)


def e4m3_multiplier(scale: Tensor, tensor: Tensor) -> Tensor:
    """What elements are multiplied by; FLT_MAX at most."""
    decode = scale * tensor
    return inverse(decode).clamp(max=LARGEST)  # of 0, too


def encode_scale(amax: Tensor, fit: float, is_power: bool) -> Tensor:
    """Of floats: fit / amax; 1 where amax is 0, infinite or NaN."""
    scale = quotient(torch.full_like(amax, fit), amax)
    if is_power:
        finite = torch.where(_is_scalable(amax), scale.clamp(max=LARGEST), 1.0)
        scale = power_of_two(floor_log2(finite))
    return torch.where(_is_scalable(amax), scale.clamp(max=LARGEST), 1.0)


def integer_scale(amax: Tensor, fit: float, is_power: bool) -> Tensor:
    """Of integers: amax / fit; 1 where amax is 0, infinite or NaN, or that underflows."""
    scale = quotient(amax, torch.full_like(amax, fit))
    scale = torch.where(_is_scalable(amax) & (scale > 0), scale, 1.0)
    if not is_power:
        return scale
    exponent = floor_log2(scale)
    return power_of_two(exponent + (power_of_two(exponent) < scale).to(torch.int32))


def _is_scalable(amax: Tensor) -> Tensor:
    bits = magnitude(amax)
    return (bits > 0) & (bits < INFINITY)


def _fraction(x: float) -> int:
    """The 23 bits behind the leading one of x > 0, a number of an element."""
    while x >= 2.0:
        x *= 0.5
    while x < 1.0:
        x *= 2.0
    return int((x - 1.0) * (1 << 23))
