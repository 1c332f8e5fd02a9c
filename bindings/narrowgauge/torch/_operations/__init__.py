"""A recipe's linear layer in torch operations alone, wherever torch runs: codes and scales with the
bits of the kernels, in the order of src/backend/ref. It imports torch and nothing of the package,
reads no value back to the host and has no loop over blocks.
"""

from .delayed import Delayed
from .elements import Element
from .form import GemmForm, LinearForm, OperandForm
from .linear import ROLES, Draws, layer_operand, linear_backward, linear_forward
from .operand import Operand, operand
from .products import product

__all__ = [
    "ROLES",
    "Delayed",
    "Draws",
    "Element",
    "GemmForm",
    "LinearForm",
    "Operand",
    "OperandForm",
    "layer_operand",
    "linear_backward",
    "linear_forward",
    "operand",
    "product",
]
