"""Names of files and folders, as the C++ side takes them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from ._errors import ArgumentError, Error

Path = str | os.PathLike[str]


def path_text(path: Path, key: str = "") -> str:
    """The name as text; Error where no file can have it, or it is no UTF-8."""
    if not isinstance(path, (str, os.PathLike)) or isinstance(os.fspath(path), bytes):
        raise ArgumentError(f"is {type(path).__name__}", "str or os.PathLike[str]", key=key)
    text = os.fspath(path)
    if not text:
        raise Error("an empty name", "that of a file or folder", key=key)
    if "\0" in text:
        raise Error(f"{text!r} has a NUL", "a name that a file can have", key=key)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise Error(f"{text!r} is no UTF-8", "a name in UTF-8", key=key) from error
    return text


def path_texts(paths: Any, key: str) -> list[str]:
    """The names, of one or several."""
    if isinstance(paths, (str, os.PathLike)):
        return [path_text(paths, key)]
    if not isinstance(paths, Sequence) or isinstance(paths, bytes):
        raise ArgumentError(
            f"is {type(paths).__name__}", "a path, or a sequence of paths", key=key
        )
    return [path_text(path, key) for path in paths]
