"""NarrowGauge: narrow number formats to the bit, and training of language models in them.

    import narrowgauge as ng
    q = ng.quantize(x, "mxfp4")
    ng.error(x, q).sqnr_db
"""

from . import _core
from ._core import Element, Format
from ._errors import Diverged, Error
from ._formats import element, format, formats
from ._models import Model, inspect
from ._numbers import Errors, dequantize, error, matmul, quantize
from ._packing import assemble, unpack
from ._quantized import Counts, Quantized
from ._recipes import Recipe, recipes
from ._tokenizers import Tokenizer, train_tokenizer
from ._train import Trainer

__version__: str = _core.version()

__all__ = [
    "Counts",
    "Diverged",
    "Element",
    "Error",
    "Errors",
    "Format",
    "Model",
    "Quantized",
    "Recipe",
    "Tokenizer",
    "Trainer",
    "__version__",
    "assemble",
    "dequantize",
    "element",
    "error",
    "format",
    "formats",
    "inspect",
    "matmul",
    "quantize",
    "recipes",
    "train_tokenizer",
    "unpack",
]
