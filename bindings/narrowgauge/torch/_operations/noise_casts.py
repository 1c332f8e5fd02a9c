"""What a weight with noise is rounded to: `weight_noise.cast`. [recipes §1.1, Table C.1]"""

from __future__ import annotations


import torch
from torch import Tensor

from .bits import INFINITY, magnitude, power_of_two, round_to_bf16
from .blocks import Block, Blocks, largest, spread
from .elements import Element, rounded
from .form import OperandForm
from .operand import operand
from .philox import Key
from .scales import e8m0_code, e8m0_exponent, encode_scale

_LARGEST_SCALE = 2.0**100  #: of one for a tensor [errata-2, 28]


def stored_plainly(y: Tensor, cast: OperandForm) -> Tensor:
    """In BF16, or FP32 where the recipe casts to that."""
    return y if cast.is_fp32 else round_to_bf16(y)


def cast_noisy(y: Tensor, cast: OperandForm, key: Key) -> Tensor:
    """FP32 values of what y is cast to. All of it is NaN where a value is not finite and the cast
    has scales, which might hide that."""
    is_plain = cast.is_unscaled and cast.element.name in ("fp32", "bf16")
    if is_plain and cast.rounding == "nearest" and cast.overflow == "special":
        return stored_plainly(y, cast)
    encode = None
    if cast.block == "tensor" and cast.scale in ("fp32", "pow2") and not cast.element.is_integer:
        amax = largest(magnitude(Blocks.of("tensor", *y.shape).split(y))).view(torch.float32)
        encode = encode_scale(amax, cast.element.max, cast.scale == "pow2")
        encode = encode.clamp(max=_LARGEST_SCALE).view(1)
    made = operand(y, cast, key=key, encode_scale=encode).values[:, : y.shape[1]]
    return torch.where(torch.isfinite(y).all(), made, float("nan"))


def round_by_bits(y: Tensor, block: Block, bits: Tensor, formats: tuple[Element, ...]) -> Tensor:
    """Each block in the narrowest of these formats that suffices for noise of so many bits, scaled
    by the power of two under which none of it saturates; the last one holds everything. A block
    stays as it is where a value or its bits are not finite."""
    blocks = Blocks.of(block, *y.shape)
    values = blocks.split(y)
    amax = largest(magnitude(values))
    made = values
    for element in formats[::-1]:
        suffices = spread(bits <= _most_bits(element))
        made = torch.where(suffices, _in_blocks(values, amax, element), made)
    is_finite = (amax < INFINITY) & torch.isfinite(bits)
    return blocks.join(torch.where(spread(is_finite), made, values))


def _most_bits(element: Element) -> float:
    """Of noise that ŵ in such numbers keeps: b_t <= m + 2 and log2(b_t + 3) <= e."""
    return min(element.mantissa_bits + 2.0, 2.0**element.exponent_bits - 3.0)


def _in_blocks(values: Tensor, amax: Tensor, element: Element) -> Tensor:
    if element.has_exponents_of_fp32:  # and needs no scale
        return rounded(values, element, None)
    code = e8m0_code(e8m0_exponent("rceil", amax, element))
    code = torch.where(amax == 0, 127, code)
    scaled = rounded(values * spread(power_of_two(127 - code)), element, None)
    return scaled * spread(power_of_two(code - 127))
