"""Whether a tensor has the values that it had, without a look at all of them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def version(tensor: Tensor) -> int:
    try:
        return tensor._version
    except RuntimeError:  # of inference mode
        return -1


def sample(tensor: Tensor) -> int:
    """Of what is written past autograd's versions (`.data`), most is seen."""
    flat = tensor.detach().reshape(-1) if tensor.is_contiguous() else tensor.detach().flatten()
    return _hash(flat)


def fingerprint(x: Tensor) -> tuple[Any, ...]:
    """Shape and some values; nobody waits for those of another device."""
    values = _hash(x.detach().reshape(-1)) if x.device.type == "cpu" else 0
    return (tuple(x.shape), values)


def _hash(flat: Tensor) -> int:
    """Of some sixty values."""
    some = flat[:: max(1, flat.numel() // 61)].contiguous()
    bits = some.view(torch.int16 if some.element_size() == 2 else torch.int32)
    return hash(tuple(bits.tolist()))
