"""Arrays as narrow numbers and back, to the bit; products of them; errors."""

from __future__ import annotations

from typing import Any, NamedTuple

from . import _core
from ._arguments import seed_of, text, threads_of, whole
from ._arrays import floats_of, matrix_of
from ._core import Format
from ._devices import QuantizedTensor, is_on_device, product_on_device
from ._errors import Error
from ._formats import FIELDS, document, format
from ._quantized import Floats, Quantized


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

    x: an array of NumPy, ml_dtypes or torch, or what NumPy makes one of. FP32 with rows without
    gaps is read in place. All dimensions but the last count as rows. Of a tensor on a CUDA device,
    where the package was built for one, numbers are made there, on torch's current stream.
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
    if is_on_device(x):
        return QuantizedTensor(x, chosen, along, hadamard, seed, tensor)
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
    sum: str = "chain",
) -> Floats:
    """a · bᵀ (M, N) of a (M, K) and b (N, K) in narrow numbers, as `narrowgauge matmul` has it.

    Rows of both are what a product sums over, as in a linear layer; transpose_b: b is (K, N).
    Formats as for quantize, or a table of a recipe's keys, "{format = 'mxfp4', ...}". Two Quantized
    are multiplied as they are, each along the dimension its blocks lie along. sum: the order of
    sums as the recipes' key has it, "chain" or "tile32", of what is not Quantized yet.
    """
    seed, threads, order = seed_of(seed), threads_of(threads), text(sum, "sum")
    if order != "chain" and isinstance(a, (Quantized, QuantizedTensor)):
        raise Error(f"sum {order!r} of a Quantized", "what it was made of, and formats")
    if isinstance(a, QuantizedTensor) and isinstance(b, QuantizedTensor):
        return a.times(b)  # type: ignore[no-any-return]
    if isinstance(a, QuantizedTensor) or isinstance(b, QuantizedTensor):
        raise Error("a tensor on a device beside what is not", "two of a kind")
    if isinstance(a, Quantized) and isinstance(b, Quantized):
        return _core.multiply(a._core, b._core, threads)
    if isinstance(a, Quantized) or isinstance(b, Quantized):
        raise Error("a Quantized beside an array", "two of a kind")
    for key, given in (("a_format", a_format), ("b_format", b_format)):
        if not isinstance(given, Format):
            text(given, key)
    word = "" if rounding is None else text(rounding, "rounding")
    hadamard = whole(hadamard, "hadamard", 0, 128)
    if is_on_device(a):
        formats = a_format, b_format
        return product_on_device(  # type: ignore[no-any-return]
            a, b, formats, word, bool(transpose_b), hadamard, order, seed
        )
    a, b = matrix_of(floats_of(a, threads)), matrix_of(floats_of(b, threads))
    return _core.product(
        a, b, a_format, b_format, word, bool(transpose_b), hadamard, order, seed, threads
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
