"""NarrowGauge: narrow number formats to the bit, and training of language models in them.

    import narrowgauge as ng
    q = ng.quantize(x, "mxfp4")
    ng.error(x, q).sqnr_db
"""

from ._core import Element, Format, __version__
from ._errors import Diverged, Error
from ._numbers import (
    Counts,
    Errors,
    Quantized,
    dequantize,
    element,
    error,
    format,
    formats,
    matmul,
    quantize,
)
from ._packing import assemble, unpack

__all__ = [
    "Counts",
    "Diverged",
    "Element",
    "Error",
    "Errors",
    "Format",
    "Quantized",
    "__version__",
    "assemble",
    "dequantize",
    "element",
    "error",
    "format",
    "formats",
    "matmul",
    "quantize",
    "unpack",
]
