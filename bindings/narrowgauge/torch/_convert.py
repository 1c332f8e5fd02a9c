"""convert, restore, describe, memory."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from .. import _core
from .._arguments import is_a, one_of, texts, whole
from .._errors import Error
from . import _bit_widths, _gradients
from ._engine import Engine
from ._family import Family, family_of
from ._ids import Ids
from ._layers import (
    Linear, converted_class, is_linear, is_turned, open_fast_paths, own_class, require_outermost,
    shut_fast_paths,
)
from ._names import Names, Namer, depth_of, is_adapter, is_meant
from ._recipe import AnyRecipe, core_recipe, has_auto_scales, left_to_others, recipe_words
from ._state import LayerState
from ._steps import begin_pass, engine_of, engines_of, layers_of

_converting = threading.Lock()


@dataclass(frozen=True)
class Converted:
    """What a layer became."""

    module: str  #: its name in the model
    layer: str  #: as recipes call it
    outputs: int
    inputs: int
    fprop: str  #: numbers of X · W: "mxfp4 x mxfp4"
    dgrad: str
    wgrad: str
    kernel: str  #: how the forward product is computed
    bytes: int  #: of the weight in the numbers of the forward product: codes and scales


@dataclass
class Conversion:
    """What convert did; print() shows it as a table."""

    recipe: str
    layers: list[Converted]
    skipped: list[str]  #: linear layers that were left as they are, as was asked; PEFT's adapters
    warnings: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)  #: of the recipe, what layers do not do

    def __iter__(self) -> Iterator[Converted]:
        return iter(self.layers)

    def __len__(self) -> int:
        return len(self.layers)

    def __str__(self) -> str:
        heading = ("module", "layer", "shape", "fprop", "dgrad", "wgrad", "kernel", "bytes")
        rows = [heading] + [
            (c.module, c.layer, f"{c.outputs}x{c.inputs}", c.fprop, c.dgrad, c.wgrad, c.kernel,
             f"{c.bytes:,}")
            for c in self.layers
        ]  # fmt: skip
        widths = [max(len(row[i]) for row in rows) for i in range(len(heading))]
        lines = ["  ".join(f"{cell:<{w}}" for cell, w in zip(row, widths)).rstrip() for row in rows]
        skipped = _by_glob(self.skipped)
        lines += [f"left as they are: {', '.join(skipped)}"] if skipped else []
        return "\n".join([f"{len(self.layers)} layers in {self.recipe}", *lines, *self.others,
                          *(f"warning: {warning}" for warning in self.warnings)])


def convert(
    model: nn.Module,
    recipe: AnyRecipe,
    *,
    skip: str | Iterable[str] = (),
    only: str | Iterable[str] | None = None,
    names: Names | None = None,
    blocks: int | None = None,
    seed: int = 1,
    step: int | None = None,
    steps: int | None = None,
    engine: str = "auto",
) -> Conversion:
    """Every linear layer of a model in a recipe's numbers from now on, in place.

    model: nn.Linear and transformers' Conv1D in it are converted, under "fp32" and "bf16" too; its
        parameters stay the very same objects.
    skip, only: globs over module names, or the names of modules around them. Adapters of PEFT are
        left as they are unless `only` means them, as the trainer has its own in `compute`.
    names: {"encoder.layer.{n}.ff": "blocks.{n}.mlp.up"}, or a function of a module name, for what
        the tables of known families lack.
    blocks: of the model, from which a recipe counts its first and last ones; else as names say.
    seed, step: of all draws; of a model that is converted already, None goes on at its step. In
        models that the trainer has too, tensors draw as they do there.
    steps: how many training has, by which the phases of a recipe follow one another; None: the
        first holds.
    engine: "kernels" of this package, which compute on the CPU; "torch": the same numbers in torch
        operations, wherever those run, with sums in torch's order; "auto": kernels for tensors of
        the CPU, torch operations for others.

    Raises Error for a layer that no rule names, for a parameter that a narrow and a wide layer
    share, and for a recipe that is none; the model is then as it was.
    """
    is_a(model, nn.Module, "a torch.nn.Module", "model")
    one_of(engine, "engine", "auto", "kernels", "torch")
    seed = whole(seed, "seed", 0, (1 << 64) - 1)
    step = None if step is None else whole(step, "step", 0, (1 << 32) - 1)
    blocks = None if blocks is None else whole(blocks, "blocks", 1, (1 << 31) - 1)
    steps = None if steps is None else whole(steps, "steps", 1, (1 << 32) - 1)
    left, meant = texts(skip, "skip"), None if only is None else texts(only, "only")
    with _converting:
        loaded = core_recipe(recipe)
        chosen, skipped = _choose(model, left, meant)
        for module, layer in chosen.items():
            require_outermost(layer, module)
        named = _named(model, chosen, names)
        _require_unshared(model, {id(m.weight): name for name, m in chosen.items()}, chosen)
        depth = depth_of(named.values(), blocks)
        if step is None:
            before = engine_of(model)
            step = 0 if before is None else before.step
        shared = Engine(loaded, seed, step, depth, steps, engine)
        shared.words = recipe_words(recipe)
        ids_of = _ids(named, family_of(model, loaded))
        states = {}
        for module, layer in chosen.items():
            ids = ids_of[module]
            turned = is_turned(layer)
            if nn.parameter.is_lazy(layer.weight) or layer.weight.numel() == 0:
                raise Error("has a weight without values", "a pass of the model before, where it "
                            f'is lazy, or skip=["{module}"]', place=module)
            outputs, inputs = layer.weight.shape[::-1] if turned else layer.weight.shape
            state = LayerState(
                shared, module, named[module], ids, outputs, inputs, layer.bias is not None, turned
            )
            states[module] = state
        report = Conversion(loaded.name, [], skipped, list(loaded.warnings), left_to_others(loaded))
        report.warnings += _warnings(model, loaded, steps)
        report.warnings += _by_glob(_others(model, skipped))
        if engine == "torch" and '"tile32"' in loaded.resolved:
            report.warnings.append("torch operations sum in torch's order, not as the recipe's sum")
        report.warnings += loaded.model_warnings(list(named.values()), depth)
        report.warnings += _by_glob(w for state in states.values() for w in _filled(state))
        auto_scales = has_auto_scales(loaded)
        report.layers = [_convert_layer(chosen[m], states[m], auto_scales) for m in states]
        shut_fast_paths(model)
        _follow_passes(model)
        return report


def _choose(
    model: nn.Module, skip: list[str], only: list[str] | None
) -> tuple[dict[str, Any], list[str]]:
    """Layers to convert by module name, and those that were not asked for."""
    for pattern in (*skip, *(only or ())):
        if not any(is_meant([pattern], name) for name, _ in model.named_modules() if name):
            raise Error(f'"{pattern}" means no module', "a glob over names of the model's modules",
                        key="skip" if pattern in skip else "only")
    chosen: dict[str, Any] = {}
    skipped: list[str] = []
    for name, layer in model.named_modules():
        if not is_linear(layer) or _is_read_past(model, name):
            continue
        wanted = is_meant(only, name) if only is not None else not is_adapter(name)
        wanted = wanted and not is_meant(skip, name)
        if wanted:
            chosen[name] = layer
        else:
            skipped.append(name)
    if not chosen:
        raise Error("has no linear layer to convert", "nn.Linear or transformers' Conv1D",
                    key="model")
    return chosen, skipped


def _is_read_past(model: nn.Module, name: str) -> bool:
    """nn.MultiheadAttention reads the weights of its layers and never calls them."""
    around = name.rpartition(".")[0]
    return isinstance(model.get_submodule(around), nn.MultiheadAttention) if name else False


def _ids(named: dict[str, str], family: Family | None) -> dict[str, Ids]:
    """By module: the trainer's, where it knows all of them."""
    if family is not None and all(name in family.layers for name in named.values()):
        return {module: family.layers[name] for module, name in named.items()}
    return {module: Ids(3 * n, 3 * n + 1, 3 * n + 2) for n, module in enumerate(named)}


def _warnings(model: nn.Module, recipe: _core.Recipe, steps: int | None) -> list[str]:
    found = [
        f"{name}: nn.MultiheadAttention multiplies by itself and stays as it is"
        for name, module in model.named_modules()
        if isinstance(module, nn.MultiheadAttention)
    ]
    found += _by_glob(
        f"{name or 'model'}: {type(module).__name__} multiplies by {parameters} itself, as before"
        for name, module in model.named_modules()
        for parameters in [_own_matrices(module)]
        if parameters
    )
    if recipe.phases > 1 and steps is None:
        found.append(f"{recipe.name} has {recipe.phases} phases: the first holds without `steps`")
    return found


def _others(model: nn.Module, skipped: list[str]) -> list[str]:
    """Layers that are left in the recipe of a call before."""
    return [
        f"{module}: stays in {layer.ng_state.engine.recipe.name}, as it was"
        for module in skipped
        for layer in [model.get_submodule(module)]
        if isinstance(layer, Linear)
    ]


def _filled(state: LayerState) -> list[str]:
    """What of a layer's sizes the blocks of its recipe do not divide."""
    fprop, dgrad, _ = state.core().products
    return [
        f"{state.module or 'model'}: {size} {what} are no multiple of {multiple}: zeros fill the "
        "last block"
        for size, what, multiple in (
            (state.inputs, "inputs", fprop["k_multiple"]),
            (state.outputs, "outputs", dgrad["k_multiple"]),
        )
        if size % multiple
    ]


def _by_glob(lines: Iterable[str]) -> list[str]:
    """Those of like layers once."""
    return list(dict.fromkeys(re.sub(r"(?<=\.)\d+\b", "*", line) for line in lines))


def _own_matrices(module: nn.Module) -> str:
    """Of a module that is no layer of torch: weights that no linear layer of it holds.

    Stacks of matrices, as transformers has those of experts, and those of nn.Linear's heirs with a
    forward of their own. Vectors with sizes of 1 before, as tokens and positions are, are none.
    """
    if isinstance(module, nn.Linear) and not is_linear(module):
        return "its weight"
    if type(module).__module__.startswith("torch.nn."):
        return ""
    own = module.named_parameters(recurse=False)
    return ", ".join(name for name, p in own if p.dim() == 3 and min(p.shape) > 1)


def _named(
    model: nn.Module, chosen: dict[str, Any], names: Names | None
) -> dict[str, str]:
    namer = Namer(model, names)
    named = {module: namer.of(module) for module in chosen}
    if len(chosen) == 1 and list(named.values()) == [None]:
        return {module: "blocks.0.linear" for module in chosen}  # a layer by itself
    for module, name in named.items():
        if name is None:
            raise Error(
                "lies in no block and is called as no layer that is known",
                f'names={{"{module}": "head"}} or another layer of recipes, or skip=["{module}"]',
                place=module or "model",
            )
    return named  # type: ignore[return-value]


def _require_unshared(
    model: nn.Module, weights: dict[int, str], chosen: dict[str, Any]
) -> None:
    """A weight that layers share is converted in all of them, or in none."""
    for name, layer in model.named_modules(remove_duplicate=False):
        if is_linear(layer) and name not in chosen and id(layer.weight) in weights:
            if any(layer is other for other in chosen.values()):
                continue  # the same module by another name
            raise Error(
                f"shares its weight with {weights[id(layer.weight)]}, which is converted",
                "both converted, or both skipped", place=name,
            )


def _convert_layer(layer: Any, state: LayerState, auto_scales: bool) -> Converted:
    core = state.core()
    layer.__class__ = converted_class(own_class(layer))  # type: ignore[arg-type]
    layer.__dict__.pop("ng_scales", None)
    for name in ("ng_scales", "ng_gradient_scale"):
        layer._buffers.pop(name, None)
    for name in ("ng_bits", "ng_clip"):
        layer._parameters.pop(name, None)
    layer.ng_state = state
    scales = torch.tensor(core.first_state().tolist()) if core.state_size > 0 else None
    if scales is not None:
        scales = scales.to(layer.weight.device)
    layer.register_buffer("ng_scales", scales)
    _bit_widths.begin(layer, state)
    _gradients.begin(layer, auto_scales)
    fprop, dgrad, wgrad = (_numbers_text(product) for product in core.products)
    return Converted(
        state.module, state.name, state.outputs, state.inputs, fprop, dgrad, wgrad,
        core.products[0]["runs"], core.weight_bytes,
    )  # fmt: skip


def _numbers_text(product: Mapping[str, Any]) -> str:
    left, right, hadamard = product["left"], product["right"], product["hadamard"]
    text = left if left == right else f"{left} x {right}"
    return f"{text}, Hadamard {hadamard}" if hadamard else text


def _follow_passes(model: Any) -> None:
    engines = engines_of(model)
    if not hasattr(model, "ng_engines"):
        model._ng_hook = model.register_forward_pre_hook(begin_pass)
    model.ng_engines = engines
    #: whose uses in a pass are counted in Python
    model.ng_states = [m.ng_state for m in layers_of(model).values()
                       if m.ng_state.engine.kind != "kernels"]  # fmt: skip


def restore(model: nn.Module) -> nn.Module:
    """The layers that convert found, with the values that they have now. Returns the model."""
    of: Any = model
    for name, layer in layers_of(model).items():
        require_outermost(layer, name)
    open_fast_paths(model)
    for layer in layers_of(model).values():
        layer.__class__ = own_class(layer)
        del layer.ng_state
        del layer._buffers["ng_scales"], layer._buffers["ng_gradient_scale"]
        del layer._parameters["ng_bits"], layer._parameters["ng_clip"]
    if hasattr(model, "ng_engines"):
        of._ng_hook.remove()
        del of._ng_hook, of.ng_engines, of.ng_states
    return model


def describe(model: nn.Module) -> dict[str, dict[str, Any]]:
    """Of each converted layer, by module name, the flags with which `narrowgauge linear` computes
    what its newest pass computed: layer, blocks, tensor_id, input_id, output_id, step, micro, seed,
    recipe (as convert had it, a dict as TOML), and of a recipe with phases phase.
    """
    found = {}
    for module, layer in layers_of(model).items():
        state = layer.ng_state
        found[module] = {
            "layer": state.name,
            "blocks": state.engine.depth,
            "tensor_id": state.ids.weight,
            "input_id": state.ids.input,
            "output_id": state.ids.output,
            "seed": state.engine.seed,
            "step": state.engine.step,
            "micro": state.micro,
            "recipe": state.engine.words,
        }
        if state.engine.recipe.phases > 1:
            found[module]["phase"] = state.engine.phase
    return found


def memory(model: nn.Module) -> dict[str, dict[str, int]]:
    """Bytes of each converted layer by module name: its weight, the operands of it that are kept
    for the step, its input that backward reads, its delayed scales.
    """
    return {
        module: {
            "weight": layer.weight.numel() * layer.weight.element_size(),
            "operands": layer.ng_state.kept_bytes,
            "input": layer.ng_state.saved_bytes,
            "scales": 0 if layer.ng_scales is None else 4 * layer.ng_scales.numel(),
        }
        for module, layer in layers_of(model).items()
    }
