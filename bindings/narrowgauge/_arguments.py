"""Arguments as the C++ side takes them: what has another type or range is named by its keyword."""

from __future__ import annotations

import contextlib
import numbers
import operator
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any

import numpy as np

from ._errors import ArgumentError, Error


def shown(value: Any) -> str:
    """A value within a line: itself where that is short, else its type."""
    if isinstance(value, str | numbers.Number | np.generic | bool | None):
        written = f'"{value}"' if isinstance(value, str) else str(value)
        if len(written) <= 60 and written.isprintable():
            return written
    return f"is {type(value).__name__}"


def is_a(value: object, kind: Any, remedy: str, key: str) -> None:
    """That it is an instance."""
    if not isinstance(value, kind):
        raise ArgumentError(f"is {type(value).__name__}", remedy, key=key)


def one_of(value: Any, key: str, *words: str) -> str:
    """One of some words."""
    if not isinstance(value, str) or value not in words:
        said = [f'"{word}"' for word in words]
        remedy = f"{', '.join(said[:-1])} or {said[-1]}"
        raise (Error if isinstance(value, str) else ArgumentError)(shown(value), remedy, key=key)
    return value


def text(value: Any, key: str) -> str:
    if not isinstance(value, str):
        raise ArgumentError(f"{shown(value)} is no text", key=key)
    return value


def texts(values: Any, key: str) -> list[str]:
    """One text, or several."""
    if not isinstance(values, str) and not _is_several(values):
        raise ArgumentError(f"{shown(values)} is no text and no list of texts", key=key)
    return [text(value, key) for value in ([values] if isinstance(values, str) else values)]


def _is_several(values: Any) -> bool:
    return isinstance(values, Sequence | Set | Iterator) and not isinstance(values, bytes)


def mapping_of_texts(value: Any, key: str, example: str) -> dict[str, str]:
    """Texts by texts."""
    if not isinstance(value, Mapping):
        raise ArgumentError(f"{shown(value)} is no mapping, as {example}", key=key)
    return {text(k, key): text(v, key) for k, v in value.items()}


def whole(value: Any, key: str, least: int = -(2**63), most: int = 2**63 - 1) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise ArgumentError(f"{shown(value)} is no whole number", key=key) from None
    if not least <= number <= most:
        raise Error(str(number), f"{least} to {most}", key=key)
    return number


def real(value: Any, key: str) -> float:
    if not isinstance(value, numbers.Real | np.number) or isinstance(value, np.complexfloating):
        raise ArgumentError(f"{shown(value)} is no number", key=key)
    return float(value)


@contextlib.contextmanager
def refusing(key: str, remedy: str) -> Iterator[None]:
    """What others make of an argument is refused as we do it, in a line."""
    try:
        yield
    except Error:
        raise
    except (TypeError, ValueError, LookupError, AttributeError) as error:
        said = str(error).split("\n")[0] or type(error).__name__
        problem = f"has no {said}" if isinstance(error, KeyError) else said.rstrip(".")
        raise ArgumentError(problem, remedy, key=key) from error


def threads_of(value: Any) -> int:
    return whole(value, "threads")


def seed_of(value: Any) -> int:
    return whole(value, "seed", 0, 2**64 - 1)


def is_ml_dtypes(dtype: np.dtype[Any]) -> bool:
    return dtype.type.__module__.partition(".")[0] == "ml_dtypes"


def codes_of(values: Any, key: str, dtype: type[np.unsignedinteger[Any]]) -> Any:
    """Codes as a whole array of dtype; numbers of ml_dtypes are taken by theirs."""
    given: Any = np.asarray(values)
    if is_ml_dtypes(given.dtype):
        given = given.reshape(-1).view(f"u{given.dtype.itemsize}").reshape(given.shape)
    if given.size == 0:
        return np.zeros(given.shape, dtype)
    if given.dtype.kind not in "iu":
        raise Error(f"{given.dtype}", "whole numbers", key=key)
    whole(given.min(), key, 0, np.iinfo(dtype).max)
    whole(given.max(), key, 0, np.iinfo(dtype).max)
    return np.ascontiguousarray(given, dtype=dtype).reshape(given.shape)
