"""Arguments as the C++ side takes them: what has another type or range is named by its keyword."""

from __future__ import annotations

import numbers
import operator
from typing import Any

import numpy as np

from ._errors import Error


def text(value: Any, key: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{key}: {value!r} is no text")
    return value


def texts(values: Any, key: str) -> list[str]:
    """One text, or several."""
    return [text(value, key) for value in ([values] if isinstance(values, str) else values)]


def whole(value: Any, key: str, least: int = -(2**63), most: int = 2**63 - 1) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{key}: {value!r} is no whole number") from None
    if not least <= number <= most:
        raise Error(str(number), f"{least} to {most}", key=key)
    return number


def real(value: Any, key: str) -> float:
    if not isinstance(value, numbers.Real | np.number):
        raise TypeError(f"{key}: {value!r} is no number")
    return float(value)


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
