"""Arrays as narrow numbers and back, to the bit; products of them; errors."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from . import _core
from ._arguments import seed_of, text, threads_of, whole
from ._arrays import TORCH_ELEMENTS, floats_of, matrix_of
from ._core import Format
from ._errors import Error
from ._formats import FIELDS, document, format
from ._layouts import pack

Floats = npt.NDArray[np.float32]


class Counts(NamedTuple):
    """What happened to the values of a source."""

    values: int
    saturated: int  #: |x| / scale above the largest element, before rounding
    flushed: int  #: x != 0 that became 0
    nan: int
    inf: int


class Errors(NamedTuple):
    """e = q - x over the finite x, summed in FP64."""

    values: int  #: finite x
    mse: float
    relative_mse: float  #: sum of e² over sum of x²; NaN where that is 0
    sqnr_db: float  #: -10·log10(relative_mse); inf without error
    max_abs: float
    max_relative: float
    underflow: float  #: share of x != 0 with q = 0
    bias: float  #: mean(e) / mean|x|


class Quantized:
    """An array as codes and scales; value = decode(code) · scale of its block · tensor_scale."""

    def __init__(self, core: _core.Quantized, shape: tuple[int, ...]) -> None:
        self._core = core
        #: of the source
        self.shape = shape

    @property
    def format(self) -> Format:
        return self._core.format

    @property
    def along(self) -> str:
        """The dimension along which blocks lie: "cols" is the last, "rows" all others together."""
        return self._core.along

    @property
    def hadamard(self) -> int:
        """Values of the transform whose result the codes stand for; 0 where there was none."""
        return self._core.hadamard

    @property
    def codes(self) -> npt.NDArray[np.uint8] | npt.NDArray[np.uint16]:
        """One code a value, in the source's shape; in uint16 where they have more than 8 bits."""
        codes: npt.NDArray[np.uint8] | npt.NDArray[np.uint16] = np.asarray(self._core.codes)
        if codes.size != int(np.prod(self.shape)):  # a transform has padded it
            return codes
        return codes.reshape(self.shape)

    def _of_blocks(self, array: Any) -> Any:
        if array is None or len(self.shape) < 3 or len(array) * self.shape[-1] < len(self.codes):
            return array
        lies_in_rows = self.along == "cols" and len(array) == int(np.prod(self.shape[:-1]))
        return array.reshape(*self.shape[:-1], -1) if lies_in_rows else array

    @property
    def scales(self) -> Floats | None:
        """What codes of a block are multiplied by, by blocks; NaN: one that was not finite."""
        scales: Floats | None = self._of_blocks(self._core.scales)
        return scales

    @property
    def scale_codes(self) -> npt.NDArray[np.uint8] | None:
        """The same as E8M0 or E4M3 codes, where the format has these."""
        codes: npt.NDArray[np.uint8] | None = self._of_blocks(self._core.scale_codes)
        return codes

    @property
    def zeros(self) -> npt.NDArray[np.uint8] | None:
        """The zero point beside each scale, of unsigned integers: value = (code - zero) · scale."""
        zeros: npt.NDArray[np.uint8] | None = self._of_blocks(self._core.zeros)
        return zeros

    @property
    def tensor_scale(self) -> float:
        """The second level, of NVFP4; 1 where there is none."""
        return self._core.tensor_scale

    @property
    def counts(self) -> Counts:
        return Counts(*self._core.counts)

    def dequantize(self, threads: int = 0) -> Floats:
        """The values as FP32; neither prescale nor transform is undone."""
        values = _core.dequantize(self._core, threads_of(threads))
        return values.reshape(self.shape) if values.size == int(np.prod(self.shape)) else values

    def as_ml_dtypes(self) -> npt.NDArray[Any]:
        """The codes as an array of ml_dtypes (or NumPy) numbers, without a copy."""
        name = self.format.element.name
        if name in ("int8", "uint8", "float16"):
            return self.codes.view(name)
        try:
            import ml_dtypes
        except ImportError as error:
            raise Error("ml_dtypes is not installed", "pip install ml_dtypes") from error
        dtype = getattr(ml_dtypes, name, None)
        if dtype is None:
            raise Error(f"ml_dtypes has no {name}", ".codes, or .dequantize()")
        return self.codes.view(dtype)

    def as_torch(self) -> Any:
        """The codes as a tensor of torch, sharing memory; E2M1 as pairs, which is a copy."""
        import torch
        from torch.utils.dlpack import from_dlpack

        name = self.format.element.name
        if name == "float4_e2m1fn" and hasattr(torch, "float4_e2m1fn_x2"):
            return torch.from_numpy(self.pack("fp4x2")).view(torch.float4_e2m1fn_x2)
        if name not in (*TORCH_ELEMENTS, "float16", "int8", "uint8"):
            raise Error(f"torch has no {name}", ".codes, or .dequantize()")
        dtype = getattr(torch, name)
        return from_dlpack(self._core.shared_codes()).view(dtype).reshape(self.codes.shape)

    def pack(self, layout: str) -> npt.NDArray[np.uint8]:
        """The codes as others keep them, row by row of the last dimension.

        "gguf": blocks of MXFP4 or NVFP4 with their scales (the scale of the tensor goes beside
        them); "safetensors": each row a little-endian bit string; "fp4x2": E2M1 in pairs, the even
        one low.
        """
        return pack(self._core, self.shape, layout)

    def __repr__(self) -> str:
        text = repr(self.format).removeprefix("<narrowgauge.Format ").removesuffix(">")
        return f"<narrowgauge.Quantized {self.shape} {text}>"


def quantize(
    x: Any,
    format: str | Format,
    *,
    along: str = "cols",
    hadamard: int = 0,
    seed: int = 1,
    tensor: int = 0,
    threads: int = 0,
    **fields: Any,
) -> Quantized:
    """x in narrow numbers; the bits depend neither on threads nor on the CPU.

    x: an array of NumPy, ml_dtypes or torch (on the CPU), or what NumPy makes one of. FP32 with
    rows without gaps is read in place. All dimensions but the last count as rows.
    format: a name as `narrowgauge cast` takes it, elements included, or a Format.
    along: "cols" has blocks along the last dimension, "rows" along the others.
    seed, tensor: of stochastic rounding, whose draws are a pure function of both and the place.
    hadamard: 16, 32, 64 or 128 values are transformed before their scales are chosen.
    threads: 0 is one for each core.

    Fields of the format:"""
    for field in fields:
        if field not in FIELDS:
            raise TypeError(f"quantize() got an unexpected keyword argument {field!r}")
    chosen = _chosen(format, fields)
    along, seed, threads = text(along, "along"), seed_of(seed), threads_of(threads)
    hadamard = whole(hadamard, "hadamard", 0, 128)
    tensor = whole(tensor, "tensor", 0, 2**32 - 1)
    values = floats_of(x, threads)
    core = _core.quantize(matrix_of(values), chosen, along, hadamard, seed, tensor, threads)
    return Quantized(core, values.shape)


document(quantize)


def _chosen(name: str | Format, fields: dict[str, Any]) -> Format:
    given = [field for field, value in fields.items() if value is not None]
    if not isinstance(name, Format):
        return format(name, **fields)
    if given:
        raise TypeError(f"{given[0]} beside a Format: narrowgauge.format(name, {given[0]}=...)")
    return name


def dequantize(q: Quantized, threads: int = 0) -> Floats:
    """The values of q as FP32; neither prescale nor transform is undone."""
    if not isinstance(q, Quantized):
        raise TypeError(f"q: {type(q).__name__} is no narrowgauge.Quantized")
    return q.dequantize(threads)


def matmul(
    a: Any,
    b: Any,
    *,
    a_format: str | Format = "fp32",
    b_format: str | Format = "fp32",
    rounding: str | None = None,
    transpose_b: bool = False,
    hadamard: int = 0,
    seed: int = 1,
    threads: int = 0,
) -> Floats:
    """a · bᵀ (M, N) of a (M, K) and b (N, K) in narrow numbers, as `narrowgauge matmul` has it.

    Rows of both are what a product sums over, as in a linear layer; transpose_b: b is (K, N).
    Formats as for quantize, or a table of a recipe's keys, "{format = 'mxfp4', ...}". Two Quantized
    are multiplied as they are, each along the dimension its blocks lie along.
    """
    seed, threads = seed_of(seed), threads_of(threads)
    if isinstance(a, Quantized) and isinstance(b, Quantized):
        return _core.multiply(a._core, b._core, threads)
    if isinstance(a, Quantized) or isinstance(b, Quantized):
        raise Error("a Quantized beside an array", "two of a kind")
    for key, given in (("a_format", a_format), ("b_format", b_format)):
        if not isinstance(given, Format):
            text(given, key)
    word = "" if rounding is None else text(rounding, "rounding")
    hadamard = whole(hadamard, "hadamard", 0, 128)
    a, b = matrix_of(floats_of(a, threads)), matrix_of(floats_of(b, threads))
    return _core.product(
        a, b, a_format, b_format, word, bool(transpose_b), hadamard, seed, threads
    )


def error(x: Any, q: Any, threads: int = 0) -> Errors:
    """How far q, a Quantized or an array of x's shape, is from x."""
    threads = threads_of(threads)
    if isinstance(q, Quantized):
        if q.hadamard:
            raise Error("numbers for transformed values", "ones without a Hadamard transform")
        q = q.dequantize(threads)
    x, q = floats_of(x, threads), floats_of(q, threads)
    if x.shape != q.shape:
        raise Error(f"numbers of shape {q.shape} for {x.shape}", "one shape")
    return Errors(*_core.error_metrics(matrix_of(x), matrix_of(q), threads))
