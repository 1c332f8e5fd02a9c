"""An operand of a product: values of a source as codes and scales. The steps are those of
src/backend/ref/operand.h, the result has the same bits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

import torch
from torch import Tensor
from torch.nn.functional import pad

from . import elements as numbers
from .bits import INFINITY, inverse, magnitude
from .blocks import Blocks, largest, spread
from .casts import (
    Cast, Source, best, e4m3_casts, e8m0_cast, fp32_casts, prescaled, scaled,
)
from .elements import Draw
from .form import OperandForm
from .hadamard import transform
from .lists import codes_of
from .philox import Key, random_integers
from .scales import E4M3, scale_codes


@dataclass(frozen=True)
class Operand:
    """elements (rows, padded k): numbers of the element format, in BF16 where that holds them.

    scale (down, across): FP32, what elements of a block are multiplied by; None without scales;
    negative of blocks with the second of a list of elements.
    tensor_scale: NVFP4's second level, () or of each region, (down, across).
    amax (): of a scale of the tensor, NaN skipped.
    """

    form: OperandForm
    elements: Tensor
    scale: Optional[Tensor] = None
    tensor_scale: Optional[Tensor] = None
    amax: Optional[Tensor] = None

    @property
    def codes(self) -> Tensor:
        """In uint8, or uint16 where they have more than 8 bits. Not of FP32."""
        return codes_of(self.elements.to(torch.float32), self.form, self.scale)

    @property
    def scale_codes(self) -> Optional[Tensor]:
        """E8M0 or E4M3 codes of the scales in uint8, where they have these."""
        if self.scale is None or self.form.scale not in ("e8m0", "e4m3"):
            return None
        return scale_codes(self.scale, self.form.scale)

    @property
    def values(self) -> Tensor:
        """fl(fl(element · scale) · tensor_scale): prescale and transform are still in them."""
        values = self._scaled_by(self.scale)
        if self.tensor_scale is None:
            return values
        if self.form.has_folded_scales:
            return values * Blocks.of(self.form.tensor_block, *values.shape).each(self.tensor_scale)
        return values * self.tensor_scale

    def factors(self) -> Tensor:
        """What products sum of one whose scales differ along the reduction, FP32: elements with
        these scales, each one number."""
        scale = self.scale
        assert scale is not None
        if self.tensor_scale is not None and self.form.has_folded_scales:
            scale = scale * self.form.level_of_blocks(self.tensor_scale, *scale.shape)
        return self._scaled_by(scale)

    def _scaled_by(self, scale: Tensor | None) -> Tensor:
        elements = self.elements.to(torch.float32)
        if scale is None:
            return elements
        blocks = Blocks.of(self.form.block, *elements.shape)
        return blocks.join(blocks.split(elements) * spread(scale))


def operand(
    x: Tensor, form: OperandForm, *, contract_rows: bool = False, k_multiple: int = 1,
    hadamard: int = 0, signs: Tensor | None = None, key: Key | None = None,
    encode_scale: Tensor | None = None,
) -> Operand:
    """x, FP32 or BF16, as an operand (rows, k), k its columns or, with contract_rows, its rows.

    k_multiple: zeros are added along k up to a multiple of it.
    hadamard, signs: size of the transform and ±1 of so many values, None: all +.
    key: of the draws of stochastic rounding.
    encode_scale (): what to scale by where that is known, as in delayed scaling.
    """
    z = _loaded(x, contract_rows, k_multiple, hadamard, signs)
    if form.is_fp32:
        return Operand(form, z)
    blocks = Blocks.of(form.block, *z.shape)
    draw = _draw(form, key, x, blocks, contract_rows)
    source = _source(z, form, blocks, draw, contract_rows)
    made = _made(source, encode_scale)
    scale = made.scale
    if form.rounding == "eden" and draw is not None:
        scale = _corrected(made, source, draw, hadamard)
    elements = blocks.join(made.elements)
    if form.fits_bf16:
        elements = elements.to(torch.bfloat16)
    return Operand(form, elements, scale, made.tensor_scale, made.amax)


def scaled_values(
    x: Tensor, form: OperandForm, *, k_multiple: int = 1, hadamard: int = 0,
    signs: Tensor | None = None, key: Key | None = None, encode_scale: Tensor | None = None,
) -> Tensor:
    """What `operand` rounds to the element, (rows, k) FP32: values over the scales of blocks."""
    z = _loaded(x, False, k_multiple, hadamard, signs)
    blocks = Blocks.of(form.block, *z.shape)
    source = _source(z, form, blocks, _draw(form, key, x, blocks, False), False)
    if form.is_unscaled:
        return blocks.join(prescaled(source))
    casts, _ = _casts(source, encode_scale)
    cast = casts[0] if len(casts) == 1 else best(source, casts)[0]
    return blocks.join(scaled(source, cast))


def _loaded(
    x: Tensor, contract_rows: bool, k_multiple: int, hadamard: int, signs: Tensor | None
) -> Tensor:
    z = x.t() if contract_rows else x
    z = z.to(torch.float32)
    missing = -z.shape[1] % k_multiple
    z = pad(z, (0, missing)) if missing else z.contiguous()
    return transform(z, hadamard, signs) if hadamard else z


def _draw(
    form: OperandForm, key: Key | None, x: Tensor, blocks: Blocks, contract_rows: bool
) -> Draw | None:
    """Of each element of the operand, by its place in x; by blocks."""
    if form.rounding == "nearest":
        return None
    if key is None:
        raise ValueError(f"key: none, and {form.element.name} is rounded stochastically")
    shape = (blocks.k, blocks.rows) if contract_rows else (blocks.rows, blocks.k)
    drawn = random_integers(key, *shape, x.shape[1], form.sr_bits, x.device)
    return Draw(blocks.split(drawn.t() if contract_rows else drawn), form.sr_bits)


def _source(
    z: Tensor, form: OperandForm, blocks: Blocks, draw: Draw | None, transposed: bool
) -> Source:
    by_element = draw if form.rounding == "stochastic" else None
    return Source(blocks.split(z), form, by_element, transposed, blocks.rows)


def _made(source: Source, encode_scale: Tensor | None) -> Operand:
    """Elements by blocks, and the scales."""
    form = source.form
    if form.is_unscaled:
        y = prescaled(source)
        return Operand(form, numbers.rounded(y, form.element, source.draw, form.overflow))
    casts, tensor = _casts(source, encode_scale)
    cast, elements = best(source, casts)
    return Operand(form, elements, cast.scale, tensor, _seen(source))


def _casts(source: Source, encode_scale: Tensor | None) -> tuple[list[Cast], Tensor | None]:
    """How blocks may be scaled, one for each fit or element, and the tensor_scale."""
    form = source.form
    if form.scaling == "delayed" and encode_scale is None:
        raise ValueError("encode_scale: none, and scaling is delayed")
    if encode_scale is not None:
        factor = encode_scale.reshape(1, 1)
        return [Cast(inverse(factor), factor)], None
    if form.scale == "e8m0":
        return [e8m0_cast(source)], None
    if form.scale == "e4m3":
        return e4m3_casts(source)
    return fp32_casts(source), None


def _seen(source: Source) -> Tensor | None:
    """The largest magnitude, by which delayed scaling goes in later steps."""
    if source.form.scaling != "delayed":
        return None
    bits = magnitude(source.values)
    return largest(torch.where(bits > INFINITY, 0, bits)).view(torch.float32).reshape(())


def _corrected(made: Operand, source: Source, draw: Draw, group: int) -> Tensor:
    """The scales of eden, by which groups of a transform meet what they were made of. [linear §5]

    Sums of FP64 run as torch has them."""
    assert made.scale is not None and made.tensor_scale is not None
    y = source.values.to(torch.float64)
    level = made.form.level_of_blocks(made.tensor_scale, *made.scale.shape)
    v = made.elements.to(torch.float32) * spread(made.scale) * spread(level)
    in_group = (*made.scale.shape[:1], -1, group // made.form.block_along_k)

    def sums(x: Tensor) -> Tensor:
        return x.sum((1, 3)).reshape(in_group).sum(2, keepdim=True)

    ratio = (sums(y * y) / sums(y * v.to(torch.float64))).to(torch.float32)
    ratio = torch.where(torch.isfinite(ratio), ratio, 1.0).expand(in_group)
    first = Draw(draw.integers[:, 0, :, 0], draw.bits)
    return numbers.rounded(made.scale * ratio.reshape(made.scale.shape), E4M3, first)
