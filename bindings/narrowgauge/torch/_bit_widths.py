"""What noise on weights learns, as parameters of layers, and what it costs."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ._layers import Linear
from ._state import LayerState
from ._steps import layers_of


def begin(layer: Linear, state: LayerState) -> None:
    """Gives a layer what noise learns, as training begins with it, where it has noise."""
    noise = state.noise()
    bits = torch.full(noise.shape, noise.first) if noise.exists else None
    clip = layer.weight.detach().max().float().view(1, 1) if noise.is_clipped else None
    layer.register_parameter("ng_bits", None if bits is None else nn.Parameter(bits))
    layer.register_parameter("ng_clip", None if clip is None else nn.Parameter(clip))


def bit_widths_by_decay(model: nn.Module) -> dict[float, list[nn.Parameter]]:
    """What noise on weights learns, by the weight decay that the recipe gives it; often nothing."""
    found: dict[float, list[nn.Parameter]] = {}
    for layer in model.modules():
        if isinstance(layer, Linear) and layer.ng_bits is not None:
            of_layer = found.setdefault(layer.ng_state.noise().decay, [])
            of_layer += [of for of in (layer.ng_bits, layer.ng_clip) if of is not None]
    return found


def penalty(model: nn.Module) -> Tensor:
    """λ·mean|b - b_target| of each layer with noise, summed: what bit-widths cost, for the loss.

    λ is `weight_noise.bitwidth_loss` of the recipe. nipq's b is that of evaluation.
    """
    total = torch.zeros(())
    for layer in layers_of(model).values():
        if layer.ng_bits is not None:
            total = total + _penalty(layer, layer.ng_bits)
    return total


def _penalty(layer: Linear, bits: Tensor) -> Tensor:
    state = layer.ng_state
    noise = state.noise()
    if noise.is_clipped:
        above = 2 + 12 * torch.sigmoid(bits) - noise.b_target
    else:
        above = bits * (noise.b_init - noise.b_target)
    return noise.loss * above.abs().mean()
