"""Values of Python as TOML, in which run files and recipes are written."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ._errors import ArgumentError, Error

_BARE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")


def _quoted(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise Error(f"{text!r} is no UTF-8", "text in UTF-8") from error
    escapes = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}
    plain = (escapes.get(c, c if c >= " " and c != "\x7f" else f"\\u{ord(c):04X}") for c in text)
    return '"' + "".join(plain) + '"'


def _key(key: str) -> str:
    return key if key and _BARE.issuperset(key) else _quoted(key)


def value_text(value: Any, key: str = "") -> str:
    """A value on one line. key: whose it is, for errors."""
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    if isinstance(value, (float, np.floating)):
        return repr(float(value))
    if isinstance(value, (str, os.PathLike)):
        return _quoted(os.fspath(value))
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(k)} = {value_text(v, key)}" for k, v in value.items()) + "}"
    if isinstance(value, (Sequence, np.ndarray)):
        return "[" + ", ".join(value_text(v, key) for v in value) + "]"
    raise ArgumentError(
        f"{type(value).__name__} in a setting", "bool, int, float, str, list or dict", key=key
    )


def setting_lines(settings: Mapping[str, Any], prefix: str = "") -> list[str]:
    """ "path = value" for each setting; keys are dotted paths, or dicts for what lies below."""
    lines: list[str] = []
    for key, value in settings.items():
        if isinstance(value, Mapping):
            lines += setting_lines(value, f"{prefix}{key}.")
        else:
            lines.append(f"{prefix}{key} = {value_text(value, f'{prefix}{key}')}")
    return lines
