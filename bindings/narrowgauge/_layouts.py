"""Codes as files and other libraries lay them out."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from . import _core
from ._core import Format
from ._errors import Error
from ._formats import format as format_named

GGUF = {"mxfp4": (32, 17), "nvfp4": (64, 36)}  #: elements and bytes of a block


def require_layout(layout: str) -> None:
    if layout not in ("gguf", "safetensors", "fp4x2"):
        raise Error(f'layout "{layout}"', '"gguf", "safetensors" or "fp4x2"')


def _require_pairs(format: Format, cols: int) -> None:
    if format.element.name != "float4_e2m1fn":
        raise Error(f"fp4x2 of {format.element.name}", "a format of E2M1 elements")
    if cols % 2:
        raise Error(f"fp4x2 of rows of {cols}", "an even number of values")


def gguf_kind(format: Format, along: str) -> str:
    known = format.name if format.name in GGUF else ""
    if not known or along != "cols" or format.block != format_named(known).block:
        raise Error(f"gguf of {format.name} along {along}", "mxfp4 or nvfp4 along cols")
    return known


def pack(core: _core.Quantized, shape: tuple[int, ...], layout: str) -> npt.NDArray[np.uint8]:
    require_layout(layout)
    codes: Any = core.codes
    codes = codes.astype(np.uint16)
    rows, cols = codes.shape
    lead = shape[:-1] if rows == int(np.prod(shape[:-1])) else (rows,)
    if layout == "gguf":
        kind = gguf_kind(core.format, core.along)
        elements, size = GGUF[kind]
        if cols % elements:
            raise Error(f"gguf of rows of {cols}", f"a multiple of {elements}")
        scale_codes: Any = core.scale_codes
        flat = _core.pack_gguf(kind, codes.reshape(-1), scale_codes.reshape(-1))
        return flat.reshape(*lead, cols // elements * size)
    bits = core.format.element.bits
    width = (cols * bits + 7) // 8  # said, for -1 says nothing where there are no bytes
    if layout == "fp4x2":
        _require_pairs(core.format, cols)
    if cols * bits % 8 == 0:
        return _core.pack_codes(codes.reshape(-1), bits).reshape(*lead, width)
    packed = [_core.pack_codes(row, bits) for row in codes]
    return np.stack(packed).reshape(*lead, width) if packed else np.zeros((*lead, width), np.uint8)
