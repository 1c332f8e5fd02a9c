"""What a recipe calls the parameters of a model, for its optimizer."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from torch import Tensor, nn

from .. import _core
from .._errors import Error
from ._family import Family, family_of
from ._layers import Linear, is_linear
from ._names import Namer, Names, block_of, depth_of
from ._state import LayerState

#: What layers with noise on their weights learn, as the trainer calls it.
_LEARNED = {"ng_bits": "b_i", "ng_clip": "alpha"}


@dataclass(frozen=True)
class Place:
    """One parameter.

    shown: its name in the model, for errors; name: as recipes call it, "blocks.0.mlp.up.weight".
    """

    shown: str
    name: str
    id: int  #: of draws
    blocks: int  #: of the model; 0: its own is the last
    turned: bool = False  #: it is (K, N)
    is_vector: bool = False  #: FP32, whatever the recipe stores, and decayed only where asked
    is_learned: bool = False  #: by noise on weights
    may_be_bf16: bool = False  #: all that reads it computes with BF16 too
    is_hooked: bool = False  #: DistributedDataParallel waits for its gradient, of its type


def places_of(
    model: nn.Module, recipe: _core.Recipe, names: Names | None, blocks: int | None
) -> dict[Tensor, Place]:
    """Of all parameters: what the trainer calls them where it has the model; else weights of
    converted layers under the names and draws that convert gave them, layers of a model that has
    none under the names that convert would, the rest as what lies outside of blocks.
    """
    readers: dict[Tensor, list[nn.Module]] = {}
    shown: dict[Tensor, str] = {}
    called: dict[Tensor, str] = {}
    states = {m.ng_state for m in model.modules() if isinstance(m, Linear)}
    namer = Namer(model, names)
    for module_name, module in model.named_modules():
        for own, parameter in module.named_parameters(recurse=False):
            if nn.parameter.is_lazy(parameter):
                raise Error("has no values yet", "a pass of the model before",
                            place=module_name or "model")
            readers.setdefault(parameter, []).append(module)
            if parameter not in shown:
                shown[parameter] = f"{module_name}.{own}" if module_name else own
                called[parameter] = f"{_layer(namer, module_name, module, not states)}.{own}"
    depth = depth_of(called.values(), blocks)
    if blocks is None:
        depth = max([depth, *(state.engine.depth for state in states)])
    free = max((max(s.ids.weight, s.ids.input, s.ids.output) for s in states), default=-1) + 1
    family = family_of(model, recipe) if names is None else None
    return {
        parameter: _place(
            Place(
                shown[parameter], called[parameter],
                _id(parameter, readers[parameter], free + number), depth,
                _is_turned(parameter, readers[parameter]), is_vector=parameter.dim() < 2,
                may_be_bf16=all(isinstance(reader, Linear) for reader in readers[parameter]),
                is_hooked=isinstance(model, nn.parallel.DistributedDataParallel),
            ),
            family,
        )
        for number, parameter in enumerate(shown)
    }


def _place(place: Place, family: Family | None) -> Place:
    """With what the trainer says of it, and of what noise on weights learns."""
    layer, _, own = place.name.rpartition(".")
    if own in _LEARNED:
        name = f"{layer}.{_LEARNED[own]}"
        place = replace(place, name=name, is_vector=True, is_learned=True)
    named = None
    if family is not None:
        named = family.parameters.get(place.shown) or family.learned.get(place.name)
    if named is None:
        return place
    return replace(place, name=named.name, id=named.id, is_vector=named.is_vector)


def given_place(number: int, parameter: Tensor, blocks: int | None) -> Place:
    """Of a parameter that no model says anything of: as `narrowgauge update` takes it."""
    part = "weight" if parameter.dim() > 1 else "bias"
    name = f"blocks.0.mlp.up.{part}"
    return Place(f"parameter {number}", name, number, blocks or 0, is_vector=parameter.dim() < 2)


def _layer(namer: Namer, module_name: str, module: nn.Module, is_wide_model: bool) -> str:
    """Without the parameter's own name."""
    if isinstance(module, Linear):
        return module.ng_state.name
    if is_linear(module):
        name = namer.of(module_name)
        if name and (is_wide_model or block_of(name) < 0):
            return name
    if isinstance(module, nn.Embedding):
        return "pos" if re.search(r"wpe|pos", module_name) else "embed"
    return f"other.{module_name}" if module_name else "other"


def _state_of(parameter: Tensor, readers: list[nn.Module]) -> LayerState | None:
    """Of the converted layer whose weight it is; None: of none, or first of something else."""
    first = readers[0]
    return first.ng_state if isinstance(first, Linear) and first.weight is parameter else None


def _id(parameter: Tensor, readers: list[nn.Module], else_id: int) -> int:
    state = _state_of(parameter, readers)
    return else_id if state is None else state.ids.weight


def _is_turned(parameter: Tensor, readers: list[nn.Module]) -> bool:
    state = _state_of(parameter, readers)
    if state is not None:
        return state.turned
    return type(readers[0]).__name__ == "Conv1D" and is_linear(readers[0]) and parameter.dim() == 2
