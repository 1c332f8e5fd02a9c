"""Codes and scales of others as a Quantized."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from . import _core
from ._arguments import codes_of, real, text, whole
from ._arrays import floats_of
from ._core import Format
from ._formats import format as format_of
from ._layouts import GGUF, gguf_kind, require_layout
from ._quantized import Quantized


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
    require_layout(layout)
    format = format if isinstance(format, Format) else format_of(format)
    packed = np.atleast_1d(codes_of(packed, "packed", np.uint8))
    lead, width = packed.shape[:-1], packed.shape[-1]
    if layout == "gguf":
        kind = gguf_kind(format, "cols")
        codes, scale_codes = _core.unpack_gguf(kind, packed.reshape(-1))
        elements, size = GGUF[kind]
        cols = width // size * elements
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
