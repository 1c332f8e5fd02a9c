"""Random Hadamard transform of groups along the reduction: z = c_g · H · (σ∘x). [formats §7]"""

from __future__ import annotations

import torch
from torch import Tensor

from .philox import HADAMARD_SIGNS, Key, Word, draw

#: TransformerEngine's + + + - + - - - - - - + - + - -: bit j is set where sign j is -.
_FIXED = 0xD7E8


def hadamard_factor(size: int) -> float:
    """c_g = 2^-floor(log2(g)/2)."""
    return 0.25 if size <= 32 else 0.125


def hadamard_alpha(size: int) -> float:
    """What a product of two transformed operands is multiplied by: 1/(g·c_g²)."""
    return 0.5 if size in (32, 128) else 1.0


def fixed_signs(size: int, device: torch.device) -> Tensor:
    """±1 (size,), repeated every 16 values."""
    at = torch.arange(size, dtype=torch.int64, device=device) & 15
    return _signs((_FIXED >> at) & 1)


def random_signs(
    seed: int, tensor: int, step: Word, gemm: int, size: int, device: torch.device
) -> Tensor:
    """±1 (size,), one draw for a layer, a GEMM (dgrad 0, wgrad 1, fprop 2) and a step."""
    group = torch.full((1,), gemm, dtype=torch.int64, device=device)
    words = torch.cat(draw(Key(seed, tensor, step, HADAMARD_SIGNS), group))
    at = torch.arange(size, dtype=torch.int64, device=device)
    return _signs((words[at >> 5] >> (at & 31)) & 1)


def _signs(is_negative: Tensor) -> Tensor:
    return (1 - 2 * is_negative).to(torch.float32)


def transform(x: Tensor, size: int, signs: Tensor | None) -> Tensor:
    """x (rows, a multiple of size), FP32, group by group: signs, butterflies, · c_g."""
    groups = x.reshape(-1, size)
    if signs is not None:
        groups = groups * signs
    return (_butterflies(groups, size) * hadamard_factor(size)).view(x.shape)


def transform_back(x: Tensor, size: int, signs: Tensor | None) -> Tensor:
    """What undoes it: butterflies, · 1/(g·c_g), signs."""
    groups = _butterflies(x.reshape(-1, size), size) * (1.0 / (size * hadamard_factor(size)))
    groups = groups.view(-1, size)
    return (groups if signs is None else groups * signs).view(x.shape)


def _butterflies(x: Tensor, size: int) -> Tensor:
    """Of groups (n, size), with strides 1, 2, 4, ..."""
    stride = 1
    while stride < size:
        u, v = x.view(-1, size // (2 * stride), 2, stride).unbind(2)
        x = torch.stack((u + v, u - v), dim=2)
        stride *= 2
    return x
