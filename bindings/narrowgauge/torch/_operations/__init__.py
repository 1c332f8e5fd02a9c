"""A recipe's linear layer in torch operations alone, wherever torch runs: codes and scales with the
bits of the kernels, in the order of src/backend/ref. It imports torch and nothing of the package,
reads no value back to the host and has no loop over blocks.
"""

from .delayed import Delayed
from .elements import Element
from .form import GemmForm, LinearForm, OperandForm
from .kept import Kept, keep, read_again
from .linear import ROLES, Draws, layer_operand, linear_backward, linear_forward
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
    "Operand",
    "OperandForm",
    "keep",
    "layer_operand",
    "linear_backward",
    "linear_forward",
    "operand",
    "product",
    "read_again",
]
