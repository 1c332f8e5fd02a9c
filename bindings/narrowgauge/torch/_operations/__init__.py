"""A recipe's linear layers, noise on their weights and updates in torch operations alone, wherever
torch runs: codes and scales with the bits of the kernels, in the order of src/backend/ref. It
imports torch and nothing of the package, has no loop over blocks, and reads no value back to the
host, but the norms by which step_search.py goes.
"""

from .delayed import Delayed
from .elements import Element
from .form import GemmForm, LinearForm, OperandForm
from .kept import Kept, keep, read_again
from .linear import ROLES, Draws, layer_operand, linear_backward, linear_forward
from .muon import MuonNumbers
from .noise import NoiseForm, NoiseSource, add_noise, noise_backward, quantize_by_proxy
from .operand import Operand, operand
from .philox import Key
from .products import product
from .rules import Numbers
from .stored import StoredForm
from .update import UpdateForm

__all__ = [
    "ROLES",
    "Delayed",
    "Draws",
    "Element",
    "GemmForm",
    "Kept",
    "Key",
    "LinearForm",
    "MuonNumbers",
    "NoiseForm",
    "NoiseSource",
    "Numbers",
    "Operand",
    "OperandForm",
    "StoredForm",
    "UpdateForm",
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
