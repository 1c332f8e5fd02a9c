"""What noise on weights learns, as parameters of layers, and what it costs."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ._layers import Linear
from ._operations import NoiseForm
from ._state import LayerState
from ._steps import layers_of


def begin(layer: Linear, state: LayerState) -> None:
    """Gives a layer what noise learns, as training begins with it, where it has noise."""
    noise, weight = state.noise_form, layer.weight.detach()
    bits = clip = None
    if noise is not None:
        bits = torch.full(noise.shape, noise.first, device=weight.device)
        clip = weight.max().float().view(1, 1) if noise.is_clipped else None
    layer.register_parameter("ng_bits", None if bits is None else nn.Parameter(bits))
    layer.register_parameter("ng_clip", None if clip is None else nn.Parameter(clip))


def bit_widths_by_decay(model: nn.Module) -> dict[float, list[nn.Parameter]]:
    """What noise on weights learns, by the weight decay that the recipe gives it; often nothing."""
    found: dict[float, list[nn.Parameter]] = {}
    for layer in model.modules():
        if isinstance(layer, Linear) and layer.ng_state.noise_form is not None:
            of_layer = found.setdefault(layer.ng_state.noise_form.decay, [])
            of_layer += [of for of in (layer.ng_bits, layer.ng_clip) if of is not None]
    return found


def penalty(model: nn.Module) -> Tensor:
    """λ·mean|b - b_target| of each layer with noise, summed: what bit-widths cost, for the loss.

    λ is `weight_noise.bitwidth_loss` of the recipe. nipq's b is that of evaluation.
    """
    total = torch.zeros(())
    for layer in layers_of(model).values():
        noise, learned = layer.ng_state.noise_form, layer.ng_bits
        if noise is not None and learned is not None:
            above = _bits(noise, learned) - noise.b_target
            total = total.to(learned.device) + noise.loss * above.abs().mean()
    return total


def _bits(noise: NoiseForm, learned: Tensor) -> Tensor:
    if noise.is_clipped:
        return 2 + 12 * torch.sigmoid(learned)
    return learned * noise.span + noise.b_target
