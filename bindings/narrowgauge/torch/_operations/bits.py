"""FP32 numbers as the bits of an int32: exact rules of exponents, on any device.

torch shifts int32 arithmetically: what is shifted right here is never negative.
"""

from __future__ import annotations

import torch
from torch import Tensor

INFINITY = 0x7F800000  #: bits of +Inf; bits of |x| above are NaN
LARGEST = 3.4028234663852886e38  #: FLT_MAX


def fp32(x: float) -> float:
    """A number of Python rounded to FP32's 24 bits, in words that compilers of torch follow."""
    if x == 0.0:
        return x
    unit = 1.0  # 24 bits lie above it
    while abs(x) >= unit * 2.0**24:
        unit = unit * 2.0
    while abs(x) < unit * 2.0**23:
        unit = unit * 0.5
    return round(x / unit) * unit


def magnitude(x: Tensor) -> Tensor:
    """Bits of |x|, which are ordered like the values, NaN on top."""
    return x.view(torch.int32) & 0x7FFFFFFF


def power_of_two(e: Tensor) -> Tensor:
    """2^e for -149 <= e <= 127."""
    subnormal = torch.ones_like(e) << (e + 149).clamp(0, 22)
    return torch.where(e < -126, subnormal, (e + 127) << 23).view(torch.float32)


def exponent_and_fraction(bits: Tensor) -> tuple[Tensor, Tensor]:
    """floor(log2 a), and the 23 bits behind the leading one, of the bits of a finite a > 0."""
    is_subnormal = bits < 1 << 23
    # An integer below 2^23 becomes FP32 without rounding: that is a · 2^149, normalized.
    normal = torch.where(is_subnormal, bits.to(torch.float32).view(torch.int32), bits)
    exponent = (normal >> 23) - torch.where(is_subnormal, 127 + 149, 127)
    return exponent.to(torch.int32), normal & 0x7FFFFF


def floor_log2(x: Tensor) -> Tensor:
    """Of finite x > 0."""
    return exponent_and_fraction(magnitude(x))[0]


def quotient(a: Tensor, b: Tensor) -> Tensor:
    """a / b rounded once to FP32.

    Compilers for GPUs divide FP32 numbers within two ulps, and torch makes number / tensor a
    product with the reciprocal. An FP64 quotient of FP32 numbers lies nowhere so near a tie that
    rounding it again would show.
    """
    if a.device.type == "mps":  # which has no FP64
        return a / b
    return (a.to(torch.float64) / b.to(torch.float64)).to(torch.float32)


def inverse(x: Tensor) -> Tensor:
    """1 / x rounded once to FP32."""
    return quotient(torch.ones_like(x), x)


def square_root(x: Tensor) -> Tensor:
    """sqrt(x) rounded once to FP32: torch's own of FP32 numbers is an ulp off here and there."""
    if x.device.type == "mps":
        return x.sqrt()
    return x.to(torch.float64).sqrt().to(torch.float32)


def round_to_bf16(x: Tensor) -> Tensor:
    """x rounded to BF16, nearest even, as FP32: a cast there and back is what compilers drop."""
    bits = x.view(torch.int32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & -0x10000
    return torch.where(torch.isnan(x), bits | 0x400000, rounded).view(torch.float32)
