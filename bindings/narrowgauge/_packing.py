"""Codes and scales as files and other libraries lay them out."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _core
from ._arguments import codes_of, real, text, whole
from ._arrays import floats_of
from ._core import Format
from ._errors import Error
from ._numbers import Quantized, format as format_of

_GGUF = {"mxfp4": 32, "nvfp4": 64}  #: elements of a block


def _word(layout: str) -> None:
    if layout not in ("gguf", "safetensors", "fp4x2"):
        raise Error(f'layout "{layout}"', '"gguf", "safetensors" or "fp4x2"')


def _require_pairs(format: Format, cols: int) -> None:
    if format.element.name != "float4_e2m1fn":
        raise Error(f"fp4x2 of {format.element.name}", "a format of E2M1 elements")
    if cols % 2:
        raise Error(f"fp4x2 of rows of {cols}", "an even number of values")


def _gguf_kind(format: Format, along: str) -> str:
    known = format.name if format.name in _GGUF else ""
    if not known or along != "cols" or format.block != format_of(known).block:
        raise Error(f"gguf of {format.name} along {along}", "mxfp4 or nvfp4 along cols")
    return known


def pack(q: Quantized, layout: str) -> npt.NDArray[np.uint8]:
    _word(layout)
    codes: Any = q._core.codes
    codes = codes.astype(np.uint16)
    rows, cols = codes.shape
    lead = q.shape[:-1] if rows == int(np.prod(q.shape[:-1])) else (rows,)
    if layout == "gguf":
        kind = _gguf_kind(q.format, q.along)
        if cols % _GGUF[kind]:
            raise Error(f"gguf of rows of {cols}", f"a multiple of {_GGUF[kind]}")
        scale_codes: Any = q._core.scale_codes
        flat = _core.pack_gguf(kind, codes.reshape(-1), scale_codes.reshape(-1))
        return flat.reshape(*lead, flat.size // rows if rows else 0)
    bits = q.format.element.bits
    width = (cols * bits + 7) // 8  # said, for -1 says nothing where there are no bytes
    if layout == "fp4x2":
        _require_pairs(q.format, cols)
    if cols * bits % 8 == 0:
        return _core.pack_codes(codes.reshape(-1), bits).reshape(*lead, width)
    packed = [_core.pack_codes(row, bits) for row in codes]
    return np.stack(packed).reshape(*lead, width) if packed else np.zeros((*lead, width), np.uint8)


def unpack(
    packed: Any,
    format: str | Format,
    layout: str,
    *,
    cols: int | None = None,
    scale_codes: Any = None,
    scales: Any = None,
    zeros: Any = None,
    tensor_scale: float = 1.0,
) -> Quantized:
    """What Quantized.pack() makes of a Quantized along cols, or a file holds, as one again.

    cols: values of a row, where its bytes do not say. Scales are those of the blocks in order:
    scale_codes where the format has such, else scales; GGUF's blocks have their own.
    """
    _word(layout)
    format = format if isinstance(format, Format) else format_of(format)
    packed = np.atleast_1d(codes_of(packed, "packed", np.uint8))
    lead, width = packed.shape[:-1], packed.shape[-1]
    if layout == "gguf":
        kind = _gguf_kind(format, "cols")
        codes, scale_codes = _core.unpack_gguf(kind, packed.reshape(-1))
        cols = codes.size // max(packed.size // max(width, 1), 1)
    else:
        bits = format.element.bits
        cols = width * 8 // bits if cols is None else whole(cols, "cols", 0, width * 8 // bits)
        rows = packed.reshape(math.prod(lead), width)
        unpacked = [_core.unpack_codes(row, bits, cols) for row in rows]
        codes = np.concatenate(unpacked) if unpacked else np.zeros(0, np.uint16)
    return assemble(codes.reshape(*lead, cols), format, scale_codes=scale_codes, scales=scales,
                    zeros=zeros, tensor_scale=tensor_scale)  # fmt: skip


def assemble(
    codes: Any,
    format: str | Format,
    *,
    along: str = "cols",
    scale_codes: Any = None,
    scales: Any = None,
    zeros: Any = None,
    tensor_scale: float = 1.0,
) -> Quantized:
    """Codes and scales that something else has made, as a Quantized; Error where they disagree."""
    format = format if isinstance(format, Format) else format_of(format)
    codes = codes_of(codes, "codes", np.uint16)
    cols = codes.shape[-1] if codes.ndim else 1
    rows = int(np.prod(codes.shape[:-1], dtype=np.int64))

    def bytes_of(array: Any, key: str) -> Any:
        return None if array is None else codes_of(array, key, np.uint8).reshape(-1)

    core = _core.assemble(
        format, rows, cols, text(along, "along"), codes.reshape(-1),
        bytes_of(scale_codes, "scale_codes"),
        None if scales is None else floats_of(scales).reshape(-1),
        bytes_of(zeros, "zeros"), real(tensor_scale, "tensor_scale"),
    )  # fmt: skip
    return Quantized(core, codes.shape)
