"""How an operand is written as narrow numbers: the keys of a recipe's operand, and its element."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import lcm
from typing import Any, Mapping, Optional

from torch import Tensor

from .bits import fp32
from .blocks import Block, Blocks
from .elements import Element
from .hadamard import hadamard_alpha


@dataclass(frozen=True)
class OperandForm:
    """The keys of src/format/operand_table.cc, by their names and with their defaults."""

    element: Element
    block: Block = "tensor"
    scale: str = "none"  #: none, fp32, pow2, e8m0, e4m3
    tensor_scale: str = "none"  #: none, fp32, pow2; above e4m3 scales
    tensor_block: Block = "tensor"  #: what a tensor_scale is of
    scaling: str = "current"  #: or delayed
    amax_history: int = 1024
    amax_compute: str = "max"
    margin: int = 0
    scale_rule: str = "floor"  #: floor, rceil, ceil, even, mse; of e4m3 nearest, up
    scale_of: str = "amax"  #: or rms, mean_abs
    fit: tuple[float, ...] = ()
    select: str = "mse"
    scale_max: float = 448.0
    rounding: str = "nearest"  #: or stochastic, eden
    sr_bits: int = 16
    overflow: str = "saturate"  #: or special
    subnormals: str = "keep"  #: or flush
    prescale: float = 1.0
    from_: str = "original"  #: or fprop: what a backward operand is made of
    gradient: str = "straight"  #: or clip, dge: what the rounding of a forward operand lets through
    dge_k: float = 5.0
    dge_max: float = 3.0
    other: Optional[Element] = None  #: the second of a list of elements
    map: str = "none"  #: or dynamic: what codes of a moment stand for
    expand: bool = False  #: a power of each block's values of a moment is stored
    parts: int = 1  #: or 2: what rounding lost of a moment is stored, too
    # Made of those above, as in Element.
    fits: tuple[float, ...] = ()  #: `fit`, or the largest element
    refits: tuple[float, ...] = ()  #: the first fit over each
    reach: float = 0.0  #: scale_max · the first fit: to which a tensor is scaled
    per_fit: float = 0.0  #: 1 / the first fit
    to_other: float = 1.0  #: the largest number of `other` over that of `element`
    from_other: float = 1.0  #: and the latter over the former

    def __post_init__(self) -> None:
        largest = self.element.max
        if self.rounding == "eden":  # scales may grow by 17/16 when they are rounded
            largest = fp32(largest / (17 / 16 * 0.93))
        fits = tuple(fp32(f) for f in self.fit) or (largest,)
        object.__setattr__(self, "fits", fits)
        object.__setattr__(self, "refits", tuple(fp32(fits[0] / f) for f in fits))
        object.__setattr__(self, "reach", fp32(fp32(self.scale_max) * fits[0]))
        object.__setattr__(self, "per_fit", fp32(1.0 / fits[0]))
        if self.other is not None:
            object.__setattr__(self, "to_other", fp32(self.other.max / self.element.max))
            object.__setattr__(self, "from_other", fp32(self.element.max / self.other.max))
        if self.rounding != "nearest" and self.sr_bits not in (8, 16, 32):
            raise ValueError(f"sr_bits: {self.sr_bits}: 8, 16 or 32")
        if self.scaling == "delayed" and self.block != "tensor":
            raise ValueError(f"scaling: delayed of block {self.block}: a scale of the tensor")

    @staticmethod
    def of(
        keys: Mapping[str, Any], element: Element, other: Optional[Element] = None
    ) -> OperandForm:
        """From the keys as TOML has them, all but the elements' names."""
        given = {key: value for key, value in keys.items() if key != "element"}
        for key in ("block", "tensor_block"):
            if isinstance(given.get(key), list):
                given[key] = tuple(given[key])
        if "fit" in given and not isinstance(given["fit"], (list, tuple)):
            given["fit"] = (given["fit"],)
        if "fit" in given:
            given["fit"] = tuple(given["fit"])
        if "from" in given:  # a word of Python's
            given["from_"] = given.pop("from")
        if given.get("scale") == "e4m3":
            given.setdefault("scale_rule", "nearest")
        return OperandForm(element, other=other, **given)

    @property
    def is_unscaled(self) -> bool:
        return self.scale == "none"

    @property
    def is_fp32(self) -> bool:
        """Nothing is rounded."""
        return self.is_unscaled and self.prescale == 1.0 and self.element.name == "fp32"

    @property
    def has_tiles(self) -> bool:
        """Its scales differ along the reduction."""
        return not self.is_unscaled and not isinstance(self.block, str)

    @property
    def block_along_k(self) -> int:
        return 1 if isinstance(self.block, str) else self.block[1]

    @property
    def has_folded_scales(self) -> bool:
        """A second scale differs along the reduction: products take it into those of blocks."""
        return not isinstance(self.tensor_block, str)

    def regions_of_blocks(self, down: int, across: int) -> Blocks:
        """What shares a tensor_scale, as blocks of blocks."""
        region = self.tensor_block
        if not isinstance(region, str) and not isinstance(self.block, str):
            region = (region[0] // self.block[0], region[1] // self.block[1])
        return Blocks.of(region, down, across)

    def level_of_blocks(self, level: Tensor, down: int, across: int) -> Tensor:
        """A tensor_scale, () or of each region, of each block: (1, 1) or (down, across)."""
        if self.tensor_block == "tensor":
            return level.reshape(1, 1)
        return self.regions_of_blocks(down, across).each(level)

    @property
    def fits_bf16(self) -> bool:
        """Its elements are numbers of BF16."""
        return self.element.significant_bits <= 8 and self.other is None

    @property
    def product_fits_bf16(self) -> bool:
        """So are its elements times the scales of their tiles, within BF16's range."""
        bits = {"e4m3": 4, "fp32": 24}.get(self.scale, 0) if self.has_tiles else 0
        bits = 24 if self.has_folded_scales else bits
        return self.fits_bf16 and self.element.significant_bits + bits <= 8

    def to_nearest(self) -> OperandForm:
        """As an evaluation rounds, which never draws."""
        return replace(self, rounding="nearest", sr_bits=16)


_FP32 = OperandForm(Element("fp32", "floating", 32, 8, 23, 127, "ieee"))


@dataclass(frozen=True)
class GemmForm:
    """left: fprop.input, dgrad.grad, wgrad.grad; right: fprop.weight, dgrad.weight, wgrad.input."""

    left: OperandForm
    right: OperandForm
    hadamard: int = 0
    hadamard_signs: str = "random"  #: or fixed, none, layer
    center: str = "none"  #: or wide, operand: what becomes of means over tokens
    output: str = "fp32"  #: or bf16: of fprop and dgrad
    narrow_output: Optional[OperandForm] = None  #: what their results are rounded to before
    # Made of those above, as in Element.
    alpha: float = 0.0  #: undoes transform and prescales of a product
    of_mean: Optional[GemmForm] = None  #: of the product of the mean that the left operand lacks

    def __post_init__(self) -> None:
        prescales = self.left.prescale * self.right.prescale
        object.__setattr__(self, "alpha", fp32(hadamard_alpha(self.hadamard) / prescales))
        of_mean = None
        if self.center != "none":
            left = _FP32
            if self.center == "operand":  # narrowed as that, to nearest, by scales of its own
                left = replace(self.left.to_nearest(), scaling="current")
            of_mean = replace(self, left=left, center="none", narrow_output=None)
        object.__setattr__(self, "of_mean", of_mean)

    @property
    def k_multiple(self) -> int:
        """Operands are padded with zeros to this along the reduction."""
        blocks = lcm(self.left.block_along_k, self.right.block_along_k)
        return lcm(blocks, max(self.hadamard, 1))

    def to_nearest(self) -> GemmForm:
        narrow = self.narrow_output and self.narrow_output.to_nearest()
        return replace(
            self, left=self.left.to_nearest(), right=self.right.to_nearest(), narrow_output=narrow
        )


@dataclass(frozen=True)
class LinearForm:
    """The numbers of one linear layer."""

    fprop: GemmForm
    dgrad: GemmForm
    wgrad: GemmForm
    #: of each operand, in the order of ROLES, the places of its history in a buffer of delayed
    #: scales; 0: it has none there
    histories: tuple[int, ...] = ()

    def is_from_fprop(self, gemm: str) -> bool:
        """Whether the right operand of dgrad or wgrad is made of what fprop read; what fprop reads
        as it is is the original."""
        if getattr(self, gemm).right.from_ != "fprop":
            return False
        read = self.fprop.right if gemm == "dgrad" else self.fprop.left
        is_plain = read.is_unscaled and read.element.name in ("fp32", "bf16")
        return self.fprop.hadamard > 0 or not is_plain

    @property
    def dgrad_reads_input(self) -> bool:
        """Whether the rounding of x lets only a part of its gradient through."""
        return self.fprop.left.gradient != "straight"

    def to_nearest(self) -> LinearForm:
        return LinearForm(
            self.fprop.to_nearest(), self.dgrad.to_nearest(), self.wgrad.to_nearest(),
            self.histories,
        )  # fmt: skip
