"""An operand of a product: values of a source as codes and scales. The steps are those of
src/backend/ref/operand.h, the result has the same bits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Optional

import torch
from torch import Tensor
from torch.nn.functional import pad

from . import elements as numbers
from .bits import INFINITY, inverse, magnitude
from .blocks import Blocks, largest, spread
from .casts import Cast, Source, best, e4m3_casts, e8m0_cast, elements_of, fp32_casts, prescaled
from .elements import Draw
from .form import OperandForm
from .hadamard import transform
from .philox import Key, random_integers
from .scales import E4M3, scale_codes


@dataclass(frozen=True)
class Operand:
    """elements (rows, padded k): numbers of the element format, in BF16 where that holds them.

    scale (down, across): FP32, what elements of a block are multiplied by; None without scales.
    tensor_scale (): NVFP4's second level. amax (): of a scale of the tensor, NaN skipped.
    """

    form: OperandForm
    elements: Tensor
    scale: Optional[Tensor] = None
    tensor_scale: Optional[Tensor] = None
    amax: Optional[Tensor] = None

    @property
    def codes(self) -> Tensor:
        """In uint8, or uint16 where they have more than 8 bits. Not of FP32."""
        return numbers.codes(self.elements.to(torch.float32), self.form.element)

    @property
    def scale_codes(self) -> Optional[Tensor]:
        """E8M0 or E4M3 codes of the scales in uint8, where they have these."""
        if self.scale is None or self.form.scale not in ("e8m0", "e4m3"):
            return None
        return scale_codes(self.scale, self.form.scale)

    @property
    def values(self) -> Tensor:
        """fl(fl(element · scale) · tensor_scale): prescale and transform are still in them."""
        values = self.scaled_elements()
        return values if self.tensor_scale is None else values * self.tensor_scale

    def scaled_elements(self) -> Tensor:
        """The same without the scale of the tensor."""
        elements = self.elements.to(torch.float32)
        if self.scale is None:
            return elements
        blocks = Blocks.of(self.form.block, *elements.shape)
        return blocks.join(blocks.split(elements) * spread(self.scale))


def operand(
    x: Tensor, form: OperandForm, *, contract_rows: bool = False, k_multiple: int = 1,
    hadamard: int = 0, signs: Tensor | None = None, key: Key | None = None,
    encode_scale: Tensor | None = None,
) -> Operand:
    """x, FP32 or BF16, as an operand (rows, k), k its columns or, with contract_rows, its rows.

    k_multiple: zeros are added along k up to a multiple of it.
    hadamard, signs: size of the transform and ±1 of so many values, None: all +.
    key: of the draws of stochastic rounding.
    encode_scale (): what delayed scaling scales by.
    """
    z = _loaded(x, contract_rows, k_multiple)
    if hadamard:
        z = transform(z, hadamard, signs)
    if form.is_fp32:
        return Operand(form, z)
    blocks = Blocks.of(form.block, *z.shape)
    draw = _draw(form, key, x, z, contract_rows)
    if draw is not None:
        draw = Draw(blocks.split(draw.integers), draw.bits)
    by_element = draw if form.rounding == "stochastic" else None
    source = Source(blocks.split(z), form, by_element, contract_rows, z.shape[0])
    made = _made(source, encode_scale)
    if form.rounding == "eden" and draw is not None:
        made = replace(made, scale=_corrected(made, source, draw, hadamard))
    elements = blocks.join(made.elements)
    if form.fits_bf16:
        elements = elements.to(torch.bfloat16)
    return Operand(form, elements, made.scale, made.tensor_scale, made.amax)


def _loaded(x: Tensor, contract_rows: bool, k_multiple: int) -> Tensor:
    z = x.t() if contract_rows else x
    z = z.to(torch.float32)
    missing = -z.shape[1] % k_multiple
    return pad(z, (0, missing)) if missing else z.contiguous()


def _draw(
    form: OperandForm, key: Key | None, x: Tensor, z: Tensor, contract_rows: bool
) -> Draw | None:
    """Of each element of z, by its place in x."""
    if form.rounding == "nearest":
        return None
    if key is None:
        raise ValueError(f"key: none, and {form.element.name} is rounded stochastically")
    rows, cols = z.shape[::-1] if contract_rows else z.shape
    drawn = random_integers(key, rows, cols, x.shape[1], form.sr_bits, x.device)
    return Draw(drawn.t() if contract_rows else drawn, form.sr_bits)


def _made(source: Source, encode_scale: Tensor | None) -> Operand:
    """Elements by blocks, and the scales."""
    form = source.form
    if form.is_unscaled:
        y = prescaled(source)
        return Operand(form, numbers.rounded(y, form.element, source.draw, form.overflow))
    if form.scaling == "delayed":
        return _delayed(source, encode_scale)
    if form.scale == "e8m0":
        cast = e8m0_cast(source)
        return Operand(form, elements_of(source, cast), cast.scale)
    if form.scale == "e4m3":
        casts, tensor = e4m3_casts(source)
        cast, elements = best(source, casts, tensor)
        return Operand(form, elements, cast.scale, tensor)
    one = torch.ones((), device=source.values.device)
    cast, elements = best(source, fp32_casts(source), one)
    return Operand(form, elements, cast.scale)


def _corrected(made: Operand, source: Source, draw: Draw, group: int) -> Tensor:
    """The scales of eden, by which groups of a transform meet what they were made of. [linear §5]

    Sums of FP64 run as torch has them."""
    assert made.scale is not None and made.tensor_scale is not None
    y = source.values.to(torch.float64)
    v = made.elements.to(torch.float32) * spread(made.scale) * made.tensor_scale
    in_group = (*made.scale.shape[:1], -1, group // made.form.block_along_k)

    def sums(x: Tensor) -> Tensor:
        return x.sum((1, 3)).reshape(in_group).sum(2, keepdim=True)

    ratio = (sums(y * y) / sums(y * v.to(torch.float64))).to(torch.float32)
    ratio = torch.where(torch.isfinite(ratio), ratio, 1.0).expand(in_group)
    first = Draw(draw.integers[:, 0, :, 0], draw.bits)
    return numbers.rounded(made.scale * ratio.reshape(made.scale.shape), E4M3, first)


def _delayed(source: Source, encode_scale: Tensor | None) -> Operand:
    """Scaled by what earlier steps have left; what this one leaves is amax."""
    if encode_scale is None:
        raise ValueError("encode_scale: none, and scaling is delayed")
    factor = encode_scale.reshape(1, 1)
    cast = Cast(inverse(factor), factor)
    bits = magnitude(source.values)
    amax = largest(torch.where(bits > INFINITY, 0, bits)).view(torch.float32)
    return Operand(source.form, elements_of(source, cast), cast.scale, amax=amax.reshape(()))
