"""Tensors that persist as a cast stores them: the codes and scales that checkpoints have.

[src/backend/ref/update/store.h]
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd
from typing import Optional

import torch
from torch import Tensor
from torch.nn.functional import pad

from . import coded
from . import elements as numbers
from .bits import LARGEST, inverse
from .blocks import Blocks
from .form import OperandForm
from .kept import Kept, pack, unpack
from .operand import Operand, operand
from .philox import Key
from .scales import encode_scale, scale_values

#: Elements that torch has a type of: what is kept is that.
_TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass(frozen=True)
class StoredForm:
    """A tensor (rows, cols)."""

    form: OperandForm
    rows: int
    cols: int
    purpose: int  #: of its draws
    #: what checkpoints call its values, and the others of Kept that there are, in their order
    states: tuple[str, ...]
    is_positive: bool = False  #: no value is below zero: a map has all its values above

    @property
    def dtype(self) -> Optional[torch.dtype]:
        """Torch's type of the elements; None: they are codes side by side."""
        return _TYPES.get(self.form.element.name)

    @property
    def is_plain(self) -> bool:
        """It is a tensor of torch's."""
        return self.form.is_unscaled and self.dtype is not None and self.form.parts == 1

    @property
    def has_one_power_of_two(self) -> bool:
        form = self.form
        return form.scale == "pow2" and form.block == "tensor" and not form.element.is_integer

    @property
    def largest(self) -> float:
        """The largest magnitude that it holds: scales follow the values."""
        return self.form.element.max if self.form.is_unscaled else LARGEST

    @property
    def stride(self) -> int:
        """Columns with those that fill the last byte of a row."""
        whole = 8 // gcd(8, self.form.element.bits)
        return -(-self.cols // whole) * whole

    @property
    def blocks(self) -> Blocks:
        """What shares a scale."""
        return Blocks.of(self.form.block, self.rows, self.cols)

    def rounded_by(self, rounding: str) -> StoredForm:
        """The same tensor with another rounding into it."""
        return replace(self, form=replace(self.form, rounding=rounding, sr_bits=16))


def zeros(of: StoredForm, device: torch.device) -> Kept:
    """As states begin: scales that are FP32 are 1."""
    shape = (of.rows, of.cols)
    if of.dtype is not None:
        codes = torch.zeros(shape, dtype=of.dtype, device=device)
    else:
        size = of.rows * of.stride * of.form.element.bits // 8
        codes = torch.zeros(size, dtype=torch.uint8, device=device)
    if of.form.is_unscaled:
        return Kept(codes, None, None, low=codes.clone() if of.form.parts == 2 else None)
    blocks = of.blocks
    grid = (-(-of.rows // blocks.height), -(-of.cols // blocks.width))
    if of.form.scale in ("e8m0", "e4m3"):
        scale = torch.zeros(grid, dtype=torch.uint8, device=device)
    else:
        scale = torch.ones(grid, device=device)
    if of.form.map != "none":
        codes.fill_(coded.code_of_zero(of.is_positive))
    if of.form.expand:
        return Kept(codes, scale, None, torch.ones_like(scale), torch.ones_like(scale))
    has_second = of.form.tensor_scale != "none"
    return Kept(codes, scale, torch.ones((), device=device) if has_second else None)


def rounded(
    values: Tensor, of: StoredForm, key: Key | None = None, encode: Tensor | None = None
) -> Operand:
    """FP32 values by the cast. encode (): the scale of the whole tensor, where it is not made of
    the values."""
    return operand(values, of.form, key=key, encode_scale=encode)


def store(
    values: Tensor, of: StoredForm, key: Key | None = None, encode: Tensor | None = None
) -> Kept:
    """As `rounded` makes them, or as moments are coded."""
    if of.form.map != "none":
        codes, decode = coded.mapped(values, of.blocks, of.is_positive)
        return Kept(codes.reshape(-1), decode, None)
    if of.form.expand:
        codes, decode, power, center = coded.expanded(values, of.blocks)
        return Kept(codes.reshape(-1), decode, None, power, center)
    if of.form.parts == 2:
        whole = replace(of, form=replace(of.form, parts=1))
        high = store(values, whole)
        return high._replace(low=store(values - load(high, whole), whole).codes)
    made = rounded(values, of, key, encode)
    scale = made.scale_codes
    codes = made.elements.to(of.dtype) if of.dtype is not None else _packed(made.codes, of)
    return Kept(codes, made.scale if scale is None else scale, made.tensor_scale)


def store_weight(values: Tensor, of: StoredForm, before: Kept, key: Key | None = None) -> Kept:
    """As a weight: the one scale of a whole tensor that is a power of two stays while it fits."""
    return store(values, of, key, kept_encode_scale(values, of, before))


def kept_encode_scale(values: Tensor, of: StoredForm, before: Kept) -> Tensor | None:
    """The scale by which `store_weight` encodes; None: that follows the values."""
    if not of.has_one_power_of_two or before.scale is None:
        return None
    amax = torch.where(torch.isnan(values), 0.0, values.abs()).amax()
    now = inverse(before.scale.reshape(()))
    most = of.form.element.max
    reach = amax * now
    fits = (amax == 0) | ((reach >= most / 8) & (reach <= most))
    stays = fits & (now > 0) & (now <= LARGEST)
    return torch.where(stays, now, encode_scale(amax, most, True))


def load(kept: Kept, of: StoredForm) -> Tensor:
    """The values, FP32."""
    if of.form.map != "none":
        assert kept.scale is not None
        return coded.of_map(_matrix(kept.codes, of), kept.scale, of.blocks, of.is_positive)
    if of.form.expand:
        assert kept.scale is not None and kept.power is not None and kept.center is not None
        codes = _matrix(kept.codes, of)
        return coded.of_powers(codes, kept.scale, kept.power, kept.center, of.blocks)
    if kept.low is not None:
        return kept.codes.to(torch.float32) + kept.low.to(torch.float32)
    elements = elements_of(kept, of)
    return Operand(of.form, elements, scale_of(kept, of), kept.tensor_scale).values


def elements_of(kept: Kept, of: StoredForm) -> Tensor:
    """Without scales, FP32."""
    if of.dtype is not None:
        return kept.codes.to(torch.float32)
    return numbers.values_of(_matrix(kept.codes, of), of.form.element)


def scale_of(kept: Kept, of: StoredForm) -> Tensor | None:
    """Of blocks (down, across), FP32."""
    if kept.scale is None or of.form.scale not in ("e8m0", "e4m3"):
        return kept.scale
    return scale_values(kept.scale, of.form.scale)


def with_elements(kept: Kept, of: StoredForm, elements: Tensor) -> Kept:
    """The same scales with other elements, numbers of the format."""
    if of.dtype is not None:
        return kept._replace(codes=elements.to(of.dtype))
    return kept._replace(codes=_packed(numbers.codes(elements, of.form.element), of))


def integers(q: Tensor, of: StoredForm) -> Kept:
    """Whole numbers in two's complement, which the smallest is one of."""
    codes = q.to(torch.int32) & (1 << of.form.element.bits) - 1
    return Kept(_packed(codes, of), None, None)


def _matrix(packed: Tensor, of: StoredForm) -> Tensor:
    """The codes (rows, cols)."""
    codes = unpack(packed, of.form.element.bits, of.rows * of.stride)
    return codes.reshape(of.rows, of.stride)[:, : of.cols]


def _packed(codes: Tensor, of: StoredForm) -> Tensor:
    """Rows begin at whole bytes."""
    return pack(pad(codes, (0, of.stride - of.cols)), of.form.element.bits)


def where(condition: Tensor, a: Kept, b: Kept) -> Kept:
    """a where it holds, (), else b."""
    parts = [
        None if x is None or y is None else torch.where(condition, x, y) for x, y in zip(a, b)
    ]
    assert parts[0] is not None
    return Kept(parts[0], *parts[1:])


def bytes_of(kept: Kept, of: StoredForm) -> dict[str, Tensor]:
    """A copy of all of it, uint8, by what checkpoints call it."""
    parts = [part for part in kept if part is not None]
    found = [part.reshape(-1).clone().view(torch.uint8) for part in parts]
    found[0] = found[0][: found[0].shape[0] - _filling(of)]
    return dict(zip(of.states, found))


def of_bytes(given: dict[str, Tensor], of: StoredForm, like: Kept) -> Kept:
    """The other way; like: of the same tensor."""

    def part(name: str, old: Tensor, filling: int = 0) -> Tensor:
        found = given[name].to(old.device, torch.uint8).reshape(-1)
        return pad(found, (0, filling)).clone().view(old.dtype).reshape(old.shape)

    names = iter(of.states)
    codes = part(next(names), like.codes, _filling(of))
    return Kept(codes, *(None if old is None else part(next(names), old) for old in like[1:]))


def _filling(of: StoredForm) -> int:
    """Bytes of the last row that have no code, which checkpoints leave out."""
    bits = of.form.element.bits
    return 0 if of.dtype is not None else (of.stride - of.cols) * bits // 8
