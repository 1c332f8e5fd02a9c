"""ln and e^x of FP64 numbers, in the steps and so with the bits of src/math/log.h and exp.h."""

from __future__ import annotations

from typing import Sequence

import torch
from torch import Tensor

_LN2_HIGH = float.fromhex("0x1.62e42feep-1")
_LN2_LOW = float.fromhex("0x1.a39ef35793c76p-33")
_LOG2_E = float.fromhex("0x1.71547652b82fep+0")
_ROUNDER = 1.5 * 2.0**52  #: adding it rounds to an integer
_SQRT_HALF = 0x3FE6A09E667F3BCD  #: bits
_LOG_TERMS = [
    float.fromhex(term)
    for term in (
        "0x1.5555555555555p-1", "0x1.9999999999e0ep-2", "0x1.249249242a0afp-2",
        "0x1.c71c725a6c2d5p-3", "0x1.745cddc2990aep-3", "0x1.3b20bf49c7886p-3",
        "0x1.0f5b0a548e75cp-3", "0x1.0f7300d1de4f9p-3",
    )
]  # fmt: skip
_EXP_TERMS = [
    float.fromhex(term)
    for term in (
        "0x1.0000000000000p-1", "0x1.555555555555cp-3", "0x1.55555555554fap-5",
        "0x1.111111110e961p-7", "0x1.6c16c16c32611p-10", "0x1.a01a01b4aa4a0p-13",
        "0x1.a01a01301c2d8p-16", "0x1.71dded2a34dd4p-19", "0x1.27e5bbc6dc56fp-22",
        "0x1.af711f1e52be3p-26", "0x1.1e3986eabeadcp-29",
    )
]  # fmt: skip


def logarithm(x: Tensor) -> Tensor:
    """Of normal numbers above 0."""
    bits = x.view(torch.int64)
    up = bits - _SQRT_HALF >> 52  # x = 2^up · [sqrt(½), sqrt(2))
    f = (bits - (up << 52)).view(torch.float64) - 1.0
    s = f / (f + 2.0)
    z = s * s
    half_square = f * 0.5 * f
    e = up.to(torch.float64)
    rest = s * (half_square + z * _polynomial(z, _LOG_TERMS)) + e * _LN2_LOW
    return e * _LN2_HIGH - ((half_square - rest) - f)


def exponential(x: Tensor) -> Tensor:
    """Infinite above the largest FP64 number, zero below the smallest."""
    n = (x * _LOG2_E + _ROUNDER) - _ROUNDER
    r = (x - n * _LN2_HIGH) - n * _LN2_LOW
    y = (r * r * _polynomial(r, _EXP_TERMS) + r) + 1.0
    whole = n.clamp(-1100, 1100).to(torch.int64)
    half = whole >> 1
    made = y * _power_of_two(half) * _power_of_two(whole - half)
    made = torch.where(x > 710.0, torch.inf, made)
    return torch.where(x < -746.0, 0.0, made)


def _polynomial(x: Tensor, terms: Sequence[float]) -> Tensor:
    of = torch.full_like(x, terms[-1])
    for term in reversed(terms[:-1]):
        of = of * x + term
    return of


def _power_of_two(e: Tensor) -> Tensor:
    return (e + 1023 << 52).view(torch.float64)
