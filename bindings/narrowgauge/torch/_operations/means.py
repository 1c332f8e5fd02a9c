"""Means over tokens, which the products of a recipe with `center` do not narrow with the rest.
[linear §8]
"""

from __future__ import annotations

import torch
from torch import Tensor

from .bits import round_to_bf16
from .form import GemmForm


def column_means(x: Tensor) -> Tensor:
    """Of x (rows, cols), (1, cols) FP32; on the CPU added in FP64 row by row, as the kernels do."""
    wide = x.to(torch.float64)
    total = wide.cumsum(0)[-1:].sum(0) if x.device.type == "cpu" else wide.sum(0)
    return (total / max(x.shape[0], 1)).to(torch.float32)[None]


def subtracted_mean(x: Tensor, gemm: GemmForm, is_weight_gradient: bool) -> Tensor:
    """What is taken off each row of x. wgrad's identity needs both means as they are."""
    mean = column_means(x)
    return round_to_bf16(mean) if gemm.center == "wide" and not is_weight_gradient else mean
