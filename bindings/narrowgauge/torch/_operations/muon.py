"""Muon's step of a matrix: its momentum made orthogonal. [recipes §6; src/optim/muon.cc]

Sums of products run as torch has them.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import torch
from torch import Tensor

from .bits import fp32, quotient
from .rules import Sections


@dataclass(frozen=True)
class MuonNumbers:
    """Numbers of FP32. X <- a·X + (b·A + c·A²)·X, A = X·Xᵀ, `steps` times."""

    momentum: float
    steps: int
    a: float
    b: float
    c: float
    update_size: float


def look_ahead(momentum: Tensor, g: Tensor, mu: float) -> tuple[Tensor, Tensor]:
    """The momentum after gradient g, and what Nesterov goes against."""
    moved = momentum * mu + g
    return moved, g + moved * mu


def orthogonal(x: Tensor, sections: Sections, numbers: MuonNumbers) -> Tensor:
    """Of each section's rows the orthogonal matrix times 0.2·√max(r, c)."""
    parts = torch.split(x, [rows for rows, _ in sections])
    return torch.cat([_orthogonal(part, numbers) for part in parts])


def _orthogonal(x: Tensor, numbers: MuonNumbers) -> Tensor:
    wide = x if x.device.type == "mps" else x.to(torch.float64)  # which has no FP64
    x = quotient(x, ((wide * wide).sum().sqrt() + 1e-7).to(torch.float32))
    is_tall = x.shape[0] > x.shape[1]
    for _ in range(numbers.steps):
        gram = x.t() @ x if is_tall else x @ x.t()
        p = gram * numbers.b + (gram @ gram) * numbers.c
        x = x * numbers.a + (x @ p if is_tall else p @ x)
    larger = fp32(sqrt(max(x.shape)))
    return x * fp32(numbers.update_size * larger)
