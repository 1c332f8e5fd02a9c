"""A matrix as blocks that share a scale: (rows, k) as (blocks down, height, across, width)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union

from torch import Tensor
from torch.nn.functional import pad

#: "tensor", "row", or rows and columns of a tile, whose columns lie along the reduction.
Block = Union[str, tuple[int, int]]


@dataclass(frozen=True)
class Blocks:
    """Blocks on the lower and the right edge are filled with zeros, which change no scale."""

    rows: int
    k: int
    height: int
    width: int

    @staticmethod
    def of(block: Block, rows: int, k: int) -> Blocks:
        if block == "tensor":
            return Blocks(rows, k, max(rows, 1), max(k, 1))
        if block == "row":
            return Blocks(rows, k, 1, max(k, 1))
        return Blocks(rows, k, *block)

    def split(self, x: Tensor) -> Tensor:
        """x (rows, k) by blocks."""
        down, across = -self.rows % self.height, -self.k % self.width
        if down or across:
            x = pad(x, (0, across, 0, down))
        shape = (x.shape[0] // self.height, self.height, x.shape[1] // self.width, self.width)
        return x.reshape(shape)

    def join(self, x: Tensor) -> Tensor:
        """The other way."""
        down, height, across, width = x.shape
        return x.reshape(down * height, across * width)[: self.rows, : self.k]

    def each(self, of: Tensor) -> Tensor:
        """What each block has, (down, across), of each of its values, (rows, k)."""
        return self.join(spread(of).expand(-1, self.height, -1, self.width))


def spread(scale: Tensor) -> Tensor:
    """Of blocks (down, across), to be multiplied with what `split` gives."""
    return scale[:, None, :, None]


def largest(bits: Tensor) -> Tensor:
    """Of each block, (down, across); bits: int32 or FP32, not below 0."""
    if bits.numel() == 0:
        return bits.new_zeros(bits.shape[0], bits.shape[2])
    return bits.amax((1, 3))
