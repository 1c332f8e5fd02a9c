"""A recipe's linear layer, and noise on its weight, in torch operations alone, wherever torch runs:
codes and scales with the bits of the kernels, in the order of src/backend/ref. It imports torch and
nothing of the package, reads no value back to the host and has no loop over blocks.
"""

from .delayed import Delayed
from .elements import Element
from .form import GemmForm, LinearForm, OperandForm
from .kept import Kept, keep, read_again
from .linear import ROLES, Draws, layer_operand, linear_backward, linear_forward
from .noise import NoiseForm, NoiseSource, add_noise, noise_backward, quantize_by_proxy
from .operand import Operand, operand
from .products import product

__all__ = [
    "ROLES",
    "Delayed",
    "Draws",
    "Element",
    "GemmForm",
    "Kept",
    "LinearForm",
    "NoiseForm",
    "NoiseSource",
    "Operand",
    "OperandForm",
    "add_noise",
    "keep",
    "layer_operand",
    "linear_backward",
    "linear_forward",
    "noise_backward",
    "operand",
    "product",
    "quantize_by_proxy",
    "read_again",
]
