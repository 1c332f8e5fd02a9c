"""Formats by name, and what may be changed in them."""

from __future__ import annotations

import inspect
from typing import Any

from . import _core
from ._arguments import real, text, whole
from ._core import Element, Format
from ._errors import Error

#: what a format may be changed in, with the kind of value and what it means
FIELDS: dict[str, tuple[str, str]] = _core.format_fields()


def element(name: str) -> Element:
    """The format of single numbers: "e4m3", "float8_e4m3fn", "mxint8", "e8m0", any eXmY."""
    return Element(text(name, "name"))


def _word(value: Any, field: str) -> str:
    """The value of a field as the command line says it."""
    kind = FIELDS[field][0]
    if kind == "block" and isinstance(value, tuple | list):
        return "x".join(str(n) for n in value)
    if kind == "reals" and not isinstance(value, str):
        numbers = value if isinstance(value, tuple | list) else [value]
        return ",".join(repr(real(n, field)) for n in numbers)
    if kind == "real":
        return repr(real(value, field))
    return str(whole(value, field)) if kind == "whole" else text(value, field)


def format(name: str, **fields: Any) -> Format:
    """A format by name, as `narrowgauge cast` takes it, with fields of it changed.

    Fields:"""
    for field in fields:
        if field not in FIELDS:
            raise TypeError(f"no field {field!r}: {', '.join(sorted(FIELDS))}")
    given = {k: v for k, v in fields.items() if v is not None}
    prescale = real(given.pop("prescale", 1.0), "prescale")
    words = {field: _word(value, field) for field, value in given.items()}
    if words.get("random_bits") == "0":  # which the command line has for "as the format says"
        raise Error("0", "16, 8 or 32", key="random_bits")
    return _core.format(text(name, "format"), words, prescale)


def formats() -> list[Format]:
    """Every format that `quantize` takes by a name, those with scales first; also any eXmY."""
    named = [_core.format(name, {}) for name in _core.format_names() if name != "fp32"]
    elements = [Element(name) for name in _core.element_names()]
    plain = [_core.format(e.name, {}) for e in elements if e.bits <= 16]
    return named + [f for f in plain if f.name not in {n.name for n in named}]


def document(function: Any) -> None:
    """Names the fields in the function's signature and its docstring."""
    signature = inspect.signature(function)
    keyword = inspect.Parameter.KEYWORD_ONLY
    named = [inspect.Parameter(field, keyword, default=None) for field in FIELDS]
    plain = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
    function.__signature__ = signature.replace(parameters=plain + named)
    fields = "".join(f"\n    {name}: {doc}" for name, (_, doc) in FIELDS.items())
    function.__doc__ = (function.__doc__ or "") + fields


document(format)
