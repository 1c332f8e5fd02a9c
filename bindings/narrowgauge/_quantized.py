"""Arrays as codes and scales, as quantize() makes them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from . import _core
from ._arguments import threads_of
from ._arrays import TORCH_ELEMENTS
from ._core import Format
from ._errors import Error
from ._layouts import pack

Floats = npt.NDArray[np.float32]


class Counts(NamedTuple):
    """What happened to the values of a source."""

    values: int
    saturated: int  #: |x| / scale above the largest element, before rounding
    flushed: int  #: x != 0 that became 0
    nan: int
    inf: int


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
