"""Operators of torch.library, as every torch that has them takes them: 2.4 or later."""

from __future__ import annotations

import inspect
import typing
from typing import TYPE_CHECKING, Any, Callable

import torch

if TYPE_CHECKING:
    from torch._library.custom_ops import CustomOpDef

HAS_OPERATORS = hasattr(torch.library, "custom_op")


def operator(
    name: str, function: Callable[..., Any], changes: tuple[str, ...] = (), draws: bool = False
) -> CustomOpDef:
    """`function` as torch's operator narrowgauge::`name`, which changes those of its arguments.

    draws: two calls with equal arguments are two, which the compiler must neither merge nor repeat.
    """
    # torch before 2.7 reads annotations that are texts by its own names alone.
    hints = typing.get_type_hints(function)
    function.__annotations__ = {at: None if t is type(None) else t for at, t in hints.items()}
    more: dict[str, Any] = {}
    if draws and "tags" in inspect.signature(torch.library.custom_op).parameters:
        more["tags"] = (torch.Tag.nondeterministic_seeded,)
    return torch.library.custom_op(f"narrowgauge::{name}", function, mutates_args=changes, **more)
