"""Whatever holds numbers, as the FP32 matrix in memory that the C++ side reads in place."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from . import _core
from ._arguments import is_ml_dtypes
from ._errors import Error

#: elements that torch has a type of the same name for, one a value
TORCH_ELEMENTS = (
    "bfloat16",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
)
_FP4_PAIRS = "float4_e2m1fn_x2"


def is_torch(x: object) -> bool:
    """Whether x is a tensor of torch, which is not imported for this."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def _of_torch(x: Any, threads: int) -> np.ndarray:
    if x.device.type != "cpu":
        raise Error(f"a tensor on {x.device}", "one on the CPU: x.cpu()")
    x = x.detach().resolve_neg()
    name = str(x.dtype).removeprefix("torch.")
    torch = sys.modules["torch"]
    if name == _FP4_PAIRS:  # a shape counts bytes: the even element lies low
        pairs = x.contiguous().view(torch.uint8).numpy()
        codes = np.stack([pairs & 15, pairs >> 4], axis=-1).reshape(*x.shape[:-1], -1)
        return _of_codes(codes, "float4_e2m1fn", threads)
    if name not in TORCH_ELEMENTS:
        plain: np.ndarray = x.numpy()
        return plain
    wide = name == "bfloat16"
    codes = x.contiguous().view(torch.int16 if wide else torch.uint8).numpy()
    return _of_codes(codes.view(np.uint16) if wide else codes, name, threads)


def _of_codes(codes: np.ndarray, element: str, threads: int) -> np.ndarray:
    flat = np.ascontiguousarray(codes).reshape(-1)
    return _core.floats_of_codes(_core.Element(element), flat, threads).reshape(codes.shape)


def _of_ml_dtypes(x: np.ndarray, threads: int) -> np.ndarray:
    codes: Any = np.ascontiguousarray(x).view(np.uint8 if x.dtype.itemsize == 1 else np.uint16)
    element = _core.Element(x.dtype.name)
    if element.bits < 8:  # what lies above them in the byte says nothing
        codes = codes & np.uint8((1 << element.bits) - 1)
    return _of_codes(codes, x.dtype.name, threads)


def floats_of(x: Any, threads: int = 0) -> np.ndarray:
    """x as FP32, in place where it is; FP64, and integers that FP32 does not hold, as numbers that
    round to narrow ones as they would.
    """
    of = _of_torch(x, threads) if is_torch(x) else np.asarray(x)
    if is_ml_dtypes(of.dtype):
        return _of_ml_dtypes(of, threads)
    if of.dtype.itemsize >= (8 if of.dtype.kind == "f" else 4) and of.dtype.kind in "fiu":
        flat = np.ascontiguousarray(of, dtype=np.float64).reshape(-1)
        return _core.floats_of_doubles(flat, threads).reshape(of.shape)
    if of.dtype.kind not in "fiub":
        raise Error(f"an array of {of.dtype}", "numbers")
    return of.astype(np.float32, copy=False)


def matrix_of(x: np.ndarray) -> np.ndarray:
    """All dimensions but the last as rows; a copy only where that has gaps in its rows."""
    cols = x.shape[-1] if x.ndim else 1
    rows = x.size // cols if cols else int(np.prod(x.shape[:-1], dtype=np.int64))
    m = x if x.ndim == 2 else x.reshape(rows, cols)
    whole = m.strides[1] == 4 or cols == 1
    apart = m.strides[0] >= 4 * cols and m.strides[0] % 4 == 0 or rows == 1
    if m.size == 0 or not (whole and apart and m.flags.aligned):
        m = np.ascontiguousarray(m)
    return m
