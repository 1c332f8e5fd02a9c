"""What optimizers make of moments and gradient, FP32 in the binding order. [recipes §6]

The order is that of src/backend/optimizer_rule.h; every operation is rounded once.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .bits import fp32, quotient, square_root


@dataclass(frozen=True)
class Numbers:
    """Of one step, numbers of FP32."""

    lr: float
    beta1: float
    beta2: float
    eps: float
    weight_decay: float
    correction1: float  #: 1 - beta1^t
    correction2: float


@dataclass(frozen=True)
class Rule:
    """kind: adamw; adam_mini, whose second moment has moved already; sgd; muon, whose gradient is
    the step to go against."""

    kind: str
    n: Numbers

    def moved(self, g: Tensor, m: Tensor, v: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """The moments after gradient g."""
        n = self.n
        if self.kind == "muon":
            return m, v
        if self.kind == "sgd":
            return m * n.beta1 + g, v
        m = m * n.beta1 + g * rest(n.beta1)
        if self.kind == "adamw" and v is not None:
            v = v * n.beta2 + (g * g) * rest(n.beta2)
        return m, v

    def root(self, v: Tensor) -> Tensor:
        """sqrt(v̂) + ε"""
        return square_root(over(v, self.n.correction2)) + self.n.eps

    def new_weight(self, w: Tensor, m: Tensor, v: Tensor | None, g: Tensor) -> Tensor:
        n = self.n
        kept = w * rest(fp32(n.lr * n.weight_decay))
        if self.kind == "sgd":
            return kept - m * n.lr
        if self.kind == "muon" or v is None:
            return kept - g * n.lr
        return kept - quotient(over(m, n.correction1) * n.lr, self.root(v))

    def direction(self, w: Tensor, m: Tensor, v: Tensor | None, g: Tensor) -> Tensor:
        """u: the weight is to become w + lr·u."""
        n = self.n
        if self.kind == "sgd":
            step = -m
        elif self.kind == "muon" or v is None:
            step = -g
        else:
            step = quotient(-over(m, n.correction1), self.root(v))
        return step - w * n.weight_decay


def rest(x: float) -> float:
    """1 - x in FP32."""
    return fp32(1.0 - x)


def over(a: Tensor, number: float) -> Tensor:
    """a / number, rounded once: torch makes of numbers products with the reciprocal."""
    return quotient(a, torch.full((), number, device=a.device))


def block_moment(v: Tensor, g: Tensor, sections: Sections, beta2: float) -> Tensor:
    """Adam-mini's second moments (blocks, 1) after gradient g: of the mean of g² over the rows of a
    block. Its sums of FP64 run as torch has them."""
    wide = g.to(torch.float64)
    of_rows, means, first = (wide * wide).sum(1), [], 0
    for rows, block in sections:
        sums = of_rows[first : first + rows].reshape(-1, block).sum(1)
        count = torch.full((), block * g.shape[1], dtype=torch.float64, device=g.device)
        means.append((sums / count).to(torch.float32))
        first += rows
    return v * beta2 + torch.cat(means)[:, None] * rest(beta2)


def of_rows(v: Tensor, sections: Sections) -> Tensor:
    """What block_moment gives, (rows, 1)."""
    found, first = [], 0
    for rows, block in sections:
        blocks = rows // block
        found.append(v[first : first + blocks].repeat_interleave(block, 0))
        first += blocks
    return torch.cat(found)


#: Rows that belong together, one section after another: rows, and those of each block.
Sections = tuple[tuple[int, int], ...]
