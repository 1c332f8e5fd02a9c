"""e^x, 2^x and ln(x) in FP64 with the bits of src/math/exp.h and src/math/log.h: products and sums,
each rounded by itself, as torch's operations are.
"""

from __future__ import annotations

import torch
from torch import Tensor

_EXP = [float.fromhex(term) for term in (
    "0x1.0000000000000p-1", "0x1.555555555555cp-3", "0x1.55555555554fap-5",
    "0x1.111111110e961p-7", "0x1.6c16c16c32611p-10", "0x1.a01a01b4aa4a0p-13",
    "0x1.a01a01301c2d8p-16", "0x1.71dded2a34dd4p-19", "0x1.27e5bbc6dc56fp-22",
    "0x1.af711f1e52be3p-26", "0x1.1e3986eabeadcp-29",
)]  # fmt: skip
_LOG = [float.fromhex(term) for term in (
    "0x1.5555555555555p-1", "0x1.9999999999e0ep-2", "0x1.249249242a0afp-2",
    "0x1.c71c725a6c2d5p-3", "0x1.745cddc2990aep-3", "0x1.3b20bf49c7886p-3",
    "0x1.0f5b0a548e75cp-3", "0x1.0f7300d1de4f9p-3",
)]  # fmt: skip
_ROUNDER = 1.5 * 2.0**52  #: adding it rounds to an integer
_LOG2_E = float.fromhex("0x1.71547652b82fep+0")
_LN2 = float.fromhex("0x1.62e42fefa39efp-1")
_LN2_HIGH, _LN2_LOW = float.fromhex("0x1.62e42feep-1"), float.fromhex("0x1.a39ef35793c76p-33")
_SQRT_HALF = 0x3FE6A09E667F3BCD  #: its bits


def exp(x: Tensor) -> Tensor:
    """e^x of FP64."""
    inside = x.clamp(-746.0, 710.0)
    n = (inside * _LOG2_E + _ROUNDER) - _ROUNDER
    r = (inside - n * _LN2_HIGH) - n * _LN2_LOW
    y = (r * r * _horner(_EXP, r) + r) + 1.0
    whole = n.to(torch.int64)
    half = whole >> 1
    y = y * _power(half) * _power(whole - half)
    y = torch.where(x > 710.0, float("inf"), y)
    return torch.where(x < -746.0, 0.0, y)


def log(x: Tensor) -> Tensor:
    """ln(x) of normal FP64 numbers above 0."""
    bits = x.view(torch.int64)
    up = bits - _SQRT_HALF >> 52  # x = 2^up · [sqrt(½), sqrt(2))
    f = (bits - (up << 52)).view(torch.float64) - 1.0
    s = f / (f + 2.0)
    z = s * s
    half_square = f * 0.5 * f
    e = up.to(torch.float64)
    off = s * (half_square + z * _horner(_LOG, z)) + e * _LN2_LOW
    return e * _LN2_HIGH - ((half_square - off) - f)


def exp2(e: Tensor) -> Tensor:
    """2^e of FP32 numbers of at most 127, rounded to FP32; exact where e is whole."""
    wide = e.to(torch.float64).clamp(min=-200.0)
    whole = torch.floor(wide)
    power = exp((wide - whole) * _LN2) * _power(whole.to(torch.int64))
    return torch.where(torch.isnan(e), e, power.to(torch.float32))


def power(x: Tensor, exponent: float) -> Tensor:
    """x^exponent of FP32 numbers above 0, rounded to FP32."""
    if x.device.type == "mps":  # which has no FP64
        return x.pow(exponent)
    return exp(exponent * log(x.to(torch.float64))).to(torch.float32)


def sigmoid(x: Tensor) -> Tensor:
    """Of FP64."""
    return torch.ones_like(x) / (exp(-x) + 1.0)


def softplus(x: Tensor) -> Tensor:
    """Of FP64."""
    return torch.where(x > 40.0, x, log(exp(x.clamp(max=40.0)) + 1.0))


def whole_power(n: Tensor) -> Tensor:
    """2^n of whole FP64 numbers, n within ±1000; NaN of NaN."""
    power = _power(n.clamp(-1000.0, 1000.0).to(torch.int64))
    return torch.where(torch.isnan(n), n, power)


def _power(n: Tensor) -> Tensor:
    """2^n of int64 within FP64's normal numbers."""
    return (n + 1023 << 52).view(torch.float64)


def _horner(terms: list[float], x: Tensor) -> Tensor:
    """Σ terms[i]·x^i."""
    total = torch.full_like(x, terms[-1])
    for term in terms[-2::-1]:
        total = total * x + term
    return total
