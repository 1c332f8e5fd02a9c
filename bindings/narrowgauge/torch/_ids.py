"""Whose draws are whose."""

from __future__ import annotations

from typing import NamedTuple


class Ids(NamedTuple):
    """Tensor ids of a layer's draws: of W and of signs, of X, of dL/dY."""

    weight: int
    input: int
    output: int
