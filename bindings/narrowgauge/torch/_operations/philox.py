"""Philox4x32-10 and the one rule for every draw, in 64-bit integers. [recipes §0]

A draw is a pure function of its key and of the element's place in the untransposed tensor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Union

import torch
from torch import Tensor

#: A word of a counter: a number, or an int64 tensor of no dimension, which compiled code needs no
#: guard for.
Word = Union[int, Tensor]

_LOW = 0xFFFFFFFF
HADAMARD_SIGNS = 11  #: the purpose of signs


@dataclass(frozen=True)
class Key:
    """Names one stream of draws. purpose: recipes §0; tensor < 2^20, micro < 2^24."""

    seed: int
    tensor: int
    step: Word
    purpose: int
    micro: Word = 0


def philox(seed: int, counter: tuple[Word, Word, Word, Word]) -> tuple[Word, Word, Word, Word]:
    """Four words of 32 bits from four; tensors are int64 and broadcast."""
    k0, k1 = seed & _LOW, seed >> 32 & _LOW
    c0, c1, c2, c3 = counter
    for _ in range(10):
        # Products of 64 bits wrap into the sign; the mask behind the shift takes that away.
        p0, p1 = c0 * 0xD2511F53, c2 * 0xCD9E8D57
        c0, c1 = (p1 >> 32 & _LOW) ^ c1 ^ k0, p1 & _LOW
        c2, c3 = (p0 >> 32 & _LOW) ^ c3 ^ k1, p0 & _LOW
        k0, k1 = k0 + 0x9E3779B9 & _LOW, k1 + 0xBB67AE85 & _LOW
    return c0, c1, c2, c3


def draw(key: Key, group: Tensor, extra: int = 0) -> tuple[Any, Any, Any, Any]:
    """The 128 bits of each group, four tensors. extra: 0x80 for the second call that 32 bits an
    element need.
    """
    tensor = group >> 32 << 20 | key.tensor
    purpose = (key.purpose | extra) << 24 | key.micro
    return philox(key.seed, (group & _LOW, tensor, key.step, purpose))


def random_integers(
    key: Key, rows: int, cols: int, whole_cols: int, bits: int, device: torch.device
) -> Tensor:
    """R of elements (0 ... rows, 0 ... cols) of a tensor that is whole_cols wide: uniform in
    [0, 2^bits), int32, with 32 bits int64. cols may lie beyond the width: padding draws, too."""
    across = torch.arange((cols + 7) // 8, dtype=torch.int64, device=device)
    down = torch.arange(rows, dtype=torch.int64, device=device)
    group = down[:, None] * ((whole_cols + 7) // 8) + across
    high = _halves(draw(key, group))[:, :cols]
    if bits == 8:
        return high >> 8
    if bits == 16:
        return high
    low = _halves(draw(key, group, 0x80))[:, :cols]
    return high.to(torch.int64) << 16 | low.to(torch.int64)


def _halves(words: tuple[Tensor, ...]) -> Tensor:
    """Eight numbers of 16 bits of each group side by side, the low half of a word first."""
    halves = [half for word in words for half in (word & 0xFFFF, word >> 16)]
    each = torch.stack([half.to(torch.int32) for half in halves], dim=-1)
    return each.flatten(-2)
