"""What a product read, in few bits until the backward pass reads it again: codes side by side and
the scales as they are stored."""

from __future__ import annotations

from math import gcd
from typing import NamedTuple, Optional

import torch
from torch import Tensor

from .form import OperandForm
from .lists import elements_of_codes
from .operand import Operand
from .scales import scale_values


class Kept(NamedTuple):
    """codes: bytes, or the elements in their own type where that has 16 bits. The last three are of
    moments alone (coded.py)."""

    codes: Tensor
    scale: Optional[Tensor]
    tensor_scale: Optional[Tensor]
    power: Optional[Tensor] = None
    center: Optional[Tensor] = None
    low: Optional[Tensor] = None  #: of what rounding to `codes` lost

    @property
    def bytes(self) -> int:
        return sum(part.numel() * part.element_size() for part in self if part is not None)


def keep(made: Operand, cols: int) -> Kept:
    """The first columns of an operand, of which there may be more with zeros."""
    form = made.form
    made = Operand(form, made.elements[:, :cols], made.scale, made.tensor_scale)
    if form.element.bits <= 8:
        codes = pack(made.codes, form.element.bits)
    else:
        half = torch.float16 if form.element.name == "fp16" else made.elements.dtype
        codes = made.elements.to(half, memory_format=torch.contiguous_format)
    stored = made.scale_codes
    return Kept(codes, made.scale if stored is None else stored, made.tensor_scale)


def read_again(of: Kept, form: OperandForm, shape: tuple[int, int], padded: int) -> Operand:
    """The operand (rows, padded) of which (rows, cols) were kept."""
    scale = of.scale
    if scale is not None and form.scale in ("e8m0", "e4m3"):
        scale = scale_values(scale, form.scale)
    if form.element.bits <= 8:
        codes = unpack(of.codes, form.element.bits, shape[0] * shape[1]).reshape(shape)
        elements = elements_of_codes(codes, form, scale)
        elements = elements.to(torch.bfloat16) if form.fits_bf16 else elements
    else:
        elements = of.codes.to(torch.bfloat16 if form.fits_bf16 else torch.float32)
    elements = torch.nn.functional.pad(elements, (0, padded - shape[1]))
    return Operand(form, elements, scale, of.tensor_scale)


def pack(codes: Tensor, bits: int) -> Tensor:
    """Codes of at most 8 bits as one string of bits, the first in the lowest ones."""
    if bits == 8:
        return codes.reshape(-1).to(torch.uint8)
    together = 8 // gcd(8, bits)  # codes that fill bytes
    flat = codes.reshape(-1)
    flat = torch.nn.functional.pad(flat, (0, -flat.shape[0] % together))
    words = _joined(flat.reshape(-1, together), bits)
    return _cut(words, 8, together * bits // 8).to(torch.uint8).reshape(-1)


def unpack(packed: Tensor, bits: int, count: int) -> Tensor:
    """The first codes of such a string, in int32."""
    if bits == 8:
        return packed[:count].to(torch.int32)
    together = 8 // gcd(8, bits)
    words = _joined(packed.reshape(-1, together * bits // 8), 8)
    return _cut(words, bits, together).reshape(-1)[:count].to(torch.int32)


def _joined(parts: Tensor, bits: int) -> Tensor:
    """(n, parts) of so many bits each as words (n)."""
    wide = parts.shape[1] * bits > 31
    parts = parts.to(torch.int64 if wide else torch.int32)
    words = parts[:, 0]
    for place in range(1, parts.shape[1]):
        words = words | parts[:, place] << bits * place
    return words


def _cut(words: Tensor, bits: int, count: int) -> Tensor:
    """Words (n) as (n, count) parts of so many bits each."""
    return torch.stack([words >> bits * place & (1 << bits) - 1 for place in range(count)], 1)
