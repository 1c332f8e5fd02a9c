"""Every recipe in any PyTorch model made of linear layers, with the bits of the trainer.

    import narrowgauge.torch as ngt
    print(ngt.convert(model, "nvfp4", skip=["lm_head"]))
    ngt.attach(model, optimizer)

docs/torch.md says more.
"""

from ._bit_widths import penalty
from ._checkpoints import load_checkpoint, save_checkpoint
from ._convert import Conversion, Converted, convert, describe, memory, restore
from ._export import export
from ._gradients import GradientHook, gradient_hook
from ._layers import Linear
from ._optimizer import optimizer
from ._steps import attach, step

__all__ = [
    "Conversion",
    "Converted",
    "GradientHook",
    "Linear",
    "attach",
    "convert",
    "describe",
    "export",
    "gradient_hook",
    "load_checkpoint",
    "memory",
    "optimizer",
    "penalty",
    "restore",
    "save_checkpoint",
    "step",
]
