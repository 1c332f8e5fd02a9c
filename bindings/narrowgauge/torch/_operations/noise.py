"""Noise on a weight w (rows, cols) in place of quantizing it. [recipes §1; errata-2, 2, 6-10]

    gaussws, diffq  b_t = b_target + b_i·(b_init - b_target)    s = max|w| of a block · 2^(1 - b_t)
                    ŵ = w + R·s                                 dL/db_t = -ln2·s·Σ dL/dŵ·R
    nipq            α = softplus(a)      Δ = α/(2^(b - 1) - 1)  b = 2 + 12·sigmoid(β), and whole
                    ŵ = ±α where |w| >= α, else w + n·Δ         in training: round(b + u)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Optional

import torch
from torch import Tensor

from .bits import fp32, magnitude, quotient, round_to_bf16
from .blocks import Block, Blocks, largest, spread
from .elements import Element
from .form import OperandForm
from .functions import exp2, sigmoid, softplus, whole_power
from .noise_casts import cast_noisy, round_by_bits, stored_plainly
from .philox import Key, Word, draw, random_integers

WEIGHT_NOISE, FPROP_WEIGHT = 1, 3  #: purposes of draws: of noise, of its cast
TILE = (32, 32)  #: of what is summed in one order
_LN2 = float.fromhex("0x1.62e43p-1")  #: in FP32


@dataclass(frozen=True)
class NoiseForm:
    """The keys of `weight_noise` by their names, of one layer; shape: of its bit-widths."""

    kind: str  #: gaussws, diffq, nipq
    shape: tuple[int, int]
    block: Block  #: TILE or "tensor"
    b_init: float
    b_target: float
    first: float  #: what bit-widths begin with
    decay: float  #: of bit-widths
    loss: float  #: λ
    cast: OperandForm
    formats: tuple[Element, ...] = ()  #: of blocks by their bits, the narrowest first; or none

    @property
    def is_clipped(self) -> bool:
        return self.kind == "nipq"

    @property
    def span(self) -> float:
        """By which b_i counts, FP32."""
        return fp32(fp32(self.b_init) - fp32(self.b_target))

    def bits(self, learned: Tensor) -> Tensor:
        """b_t of each block, FP32; nipq's without noise."""
        if self.is_clipped:
            return _proxy_bits(learned.to(torch.float64)).to(torch.float32)
        return _product(learned, torch.full_like(learned, self.span)) + fp32(self.b_target)


class NoiseSource(NamedTuple):
    """seed, tensor: of draws; step: too, and None at evaluation, which draws nothing.

    learned: b_i (down, across); nipq: β (1, 1), and clip: a (1, 1). FP32.
    """

    seed: int
    tensor: int
    step: Optional[Word]
    learned: Tensor
    clip: Optional[Tensor]

    def key(self, purpose: int) -> Key:
        assert self.step is not None
        return Key(self.seed, self.tensor, self.step, purpose)


def add_noise(w: Tensor, form: NoiseForm, of: NoiseSource) -> tuple[Tensor, Tensor]:
    """ŵ as the recipe casts it, and what noise was multiplied by, of each block; both FP32."""
    if form.is_clipped:
        proxy = _Proxy.of(of)
        y, scales = _add_proxy(w, _noise(w, form, of), proxy), proxy.delta.to(torch.float32)
    else:
        blocks = Blocks.of(form.block, *w.shape)
        amax = largest(magnitude(blocks.split(w))).view(torch.float32)
        scales = amax * exp2((1.0 - form.bits(of.learned)).clamp(max=127.0))
        y = w + blocks.join(_product(blocks.split(_noise(w, form, of)), spread(scales)))
    if form.formats:
        y = round_by_bits(y, form.block, form.bits(of.learned), form.formats)
        return stored_plainly(y, form.cast), scales
    return cast_noisy(y, form.cast, of.key(FPROP_WEIGHT)), scales


def quantize_by_proxy(w: Tensor, form: NoiseForm, of: NoiseSource) -> Tensor:
    """nipq's ŵ at evaluation: w in steps of Δ."""
    proxy = _Proxy.of(of._replace(step=None))
    alpha, delta = proxy.alpha.to(torch.float32), proxy.delta.to(torch.float32)
    levels = torch.round(quotient(w, delta.expand_as(w))) * delta
    return stored_plainly(torch.where(w.abs() >= alpha, alpha.copysign(w), levels), form.cast)


def noise_backward(
    grad: Tensor, w: Tensor, scales: Tensor, form: NoiseForm, of: NoiseSource
) -> tuple[Tensor, Tensor, Optional[Tensor]]:
    """dL/dw, dL/d learned without what bit-widths cost, dL/d clip, of grad: dL/dŵ. FP32.

    scales: as add_noise left them. Of w only nipq reads more than its shape."""
    noise = _noise(w, form, of)
    if form.is_clipped:
        return _proxy_backward(grad, w, noise, form, of)
    sums = _tile_sums(_product(grad, noise)).to(torch.float64)
    if form.block == "tensor":
        sums = _in_order(sums)
    of_bits = -_LN2 * scales * sums.to(torch.float32) + _free(form, of)
    return grad, of_bits * form.span, None


def _free(form: NoiseForm, of: NoiseSource) -> Tensor:
    """λ/blocks·sign(b_t - b_target) of (12) with λ = 0, as what bit-widths cost is in the loss: it
    gives sums of nothing the kernels' sign."""
    return torch.sign(form.bits(of.learned) - fp32(form.b_target)) * 0.0


# Draws -------------------------------------------------------------------------------------------


def _noise(w: Tensor, form: NoiseForm, of: NoiseSource) -> Tensor:
    """R, of nipq n, of each weight."""
    key = of.key(WEIGHT_NOISE)
    if form.kind == "gaussws":
        return _rounded_normals(key, w)
    uniform = _uniform(key, w)
    return uniform if form.is_clipped else round_to_bf16(uniform)


def _rounded_normals(key: Key, w: Tensor) -> Tensor:
    """-2 ... 2, of which a group of eight has a nibble each: sign·8 + magnitude. [eq. 10]"""
    rows, groups = w.shape[0], (w.shape[1] + 7) // 8
    group = torch.arange(rows * groups, dtype=torch.int64, device=w.device).view(rows, groups)
    r0, r1, r2, r3 = draw(key, group)
    t = r0 | r1  # 3/4 per bit
    u = r2 & r3
    u = u & u >> 1
    u = u & u >> 2  # bit 0 of each nibble: 2^-8
    two = u & t & 0x11111111
    one = t >> 1 & t >> 2 & r0 >> 3 & 0x11111111 & ~two
    word = r1 & 0x88888888 | two << 1 | one
    halves = torch.stack((word & 0xFFFF, word >> 16), dim=-1).to(torch.int32)
    at = torch.arange(0, 16, 4, dtype=torch.int32, device=w.device)
    nibble = (halves[..., None] >> at).view(rows, -1)[:, : w.shape[1]]
    size = (nibble & 3).to(torch.float32)
    return torch.where((nibble & 8) != 0, -size, size)


def _uniform(key: Key, w: Tensor) -> Tensor:
    """(h + ½)/2^16 - ½ of 16 bits h, exact."""
    rows, cols = w.shape
    h = random_integers(key, rows, cols, cols, 16, w.device).to(torch.float32)
    return (h + 0.5) * 2.0**-16 - 0.5


# nipq --------------------------------------------------------------------------------------------


class _Proxy(NamedTuple):
    """What nipq clips at and adds, and how that changes with what it learns; FP64 (1, 1)."""

    alpha: Tensor
    delta: Tensor
    delta_by_alpha: Tensor
    delta_by_bits: Tensor

    @staticmethod
    def of(source: NoiseSource) -> _Proxy:
        assert source.clip is not None
        alpha = softplus(source.clip.to(torch.float64))
        bits = _proxy_bits(source.learned.to(torch.float64))
        if source.step is not None:
            u = _uniform(source.key(WEIGHT_NOISE), alpha)
            bits = bits + u.to(torch.float64)
        power = whole_power(torch.round(bits) - 1.0)
        levels = power - 1.0
        by_bits = power * -_LN2 * alpha / (levels * levels)
        return _Proxy(alpha, alpha / levels, torch.ones_like(levels) / levels, by_bits)


def _proxy_bits(beta: Tensor) -> Tensor:
    return sigmoid(beta) * 12.0 + 2.0


def _add_proxy(w: Tensor, n: Tensor, proxy: _Proxy) -> Tensor:
    alpha, delta = proxy.alpha.to(torch.float32), proxy.delta.to(torch.float32)
    return torch.where(w.abs() >= alpha, alpha.copysign(w), w + _product(n, delta))


def _proxy_backward(
    grad: Tensor, w: Tensor, n: Tensor, form: NoiseForm, of: NoiseSource
) -> tuple[Tensor, Tensor, Tensor]:
    assert of.clip is not None
    proxy = _Proxy.of(of)
    is_clipped = w.abs() >= proxy.alpha.to(torch.float32)
    wide = grad.to(torch.float64)
    signed = torch.where(torch.signbit(w), -wide, wide)
    by_noise = _in_order(_tile_sums(torch.where(is_clipped, 0.0, wide * n.to(torch.float64))))
    by_clip = _in_order(_tile_sums(torch.where(is_clipped, signed, 0.0)))
    of_bits = (by_noise * proxy.delta_by_bits).to(torch.float32) + _free(form, of)
    of_clip = (by_clip + by_noise * proxy.delta_by_alpha).to(torch.float32)
    share = sigmoid(of.learned.to(torch.float64))
    learned = share * 12.0 * (1.0 - share) * of_bits.to(torch.float64)
    clip = of_clip * sigmoid(of.clip.to(torch.float64)).to(torch.float32)
    return torch.where(is_clipped, 0.0, grad), learned.to(torch.float32), clip


# Sums --------------------------------------------------------------------------------------------


def _product(a: Tensor, b: Tensor) -> Tensor:
    """a·b of FP32 rounded once: by way of FP64, where it is exact, no compiler makes one operation
    of it and of the sum that follows."""
    return (a.to(torch.float64) * b.to(torch.float64)).to(torch.float32)


def _tile_sums(terms: Tensor) -> Tensor:
    """Of each tile of terms (rows, cols), as they are: lane l of 16 adds columns l and l + 16, rows
    in order; lanes fold by +8, +4, +2, +1. (down, across)"""
    tiles = Blocks.of(TILE, *terms.shape).split(terms)
    down, height, across, width = tiles.shape
    lanes = tiles.reshape(down, height, across, 2, width // 2).permute(1, 3, 0, 2, 4).flatten(0, 1)
    total = terms.new_zeros(())
    for of_lanes in lanes.unbind(0):  # 64, of all tiles at once
        total = total + of_lanes
    for half in (8, 4, 2, 1):
        total = total[..., :half] + total[..., half:]
    return total[..., 0]


def _in_order(sums: Tensor) -> Tensor:
    """Of a tensor's tiles, (1, 1) of FP64."""
    return sums.flatten().cumsum(0)[-1:].view(1, 1)
