"""Every recipe in any PyTorch model made of linear layers, with the bits of the trainer.

    import narrowgauge.torch as ngt
    print(ngt.convert(model, "nvfp4", skip=["lm_head"]))
    ngt.attach(model, optimizer)

docs/torch.md says more.
"""

from ._bit_widths import penalty
from ._convert import Conversion, Converted, convert, describe, memory, restore
from ._layers import Linear
from ._steps import attach, step

__all__ = [
    "Conversion",
    "Converted",
    "Linear",
    "attach",
    "convert",
    "describe",
    "memory",
    "penalty",
    "restore",
    "step",
]
