"""The step of precision-aware updates: α with ‖RN(w + αu) - w‖ nearest to lr·‖u‖.

It goes by what each try gives, so it asks the device for each. [src/backend/step_search.h]
"""

from __future__ import annotations

import struct
from math import inf
from typing import Callable

#: f(α), FP64
NormAt = Callable[[float], float]

_MOST_DOUBLINGS = 60


def as_fp32(x: float) -> float:
    """Rounded to FP32, beyond its range infinite."""
    try:
        return float(struct.unpack("f", struct.pack("f", x))[0])
    except OverflowError:
        return inf


class _Best:
    """The probe whose norm is nearest to the target, the first of equals; no step is one."""

    def __init__(self, target: float, rtol: float) -> None:
        self._target, self._rtol = target, rtol
        self._error, self.alpha = 1.0, 0.0

    def take(self, alpha: float, norm: float) -> bool:
        """Whether it is near enough to end the search."""
        error = abs(norm / self._target - 1)
        if error < self._error:
            self._error, self.alpha = error, alpha
        return error < self._rtol


def search_step(
    norm_at: NormAt, lr: float, target: float, rtol: float, max_iters: int
) -> float:
    """Doubles lr until f reaches the target, then bisects. target: lr·‖u‖ > 0."""
    best = _Best(target, rtol)
    lo, hi = 0.0, lr
    for _ in range(_MOST_DOUBLINGS + 1):
        norm = norm_at(hi)
        if best.take(hi, norm):
            return best.alpha
        if norm >= target:
            break
        lo, hi = hi, as_fp32(hi * 2)
    else:
        return best.alpha
    for _ in range(max_iters):
        middle = as_fp32(as_fp32(lo + hi) / 2)
        if middle in (lo, hi):
            break
        norm = norm_at(middle)
        if best.take(middle, norm):
            break
        lo, hi = (middle, hi) if norm < target else (lo, middle)
    return best.alpha


def search_step_as_printed(
    norm_at: NormAt, target: float, rtol: float, max_iters: int
) -> float:
    """The algorithm of source 000 to the letter: the last try counts. target: lr·‖u‖² > 0."""
    alpha, lo, hi = 0.0, 0.0, 1.0
    for _ in range(max_iters):
        alpha = as_fp32(as_fp32(lo + hi) / 2)
        norm = norm_at(alpha)
        squares = norm * norm
        if abs(squares / target - 1) < rtol:
            break
        lo, hi = (alpha, hi) if squares < target else (lo, alpha)
    return alpha
