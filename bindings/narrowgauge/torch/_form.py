"""A layer's numbers for torch operations, and its delayed scales there."""

from __future__ import annotations

import tomllib
from typing import Any, Optional

from torch import Tensor

from .. import _core
from .._formats import element as element_named
from ._operations import Delayed, Element, GemmForm, LinearForm, NoiseForm, OperandForm
from ._operations.linear import ROLES
from ._operations.noise import TILE


def form_of(core: _core.Layer) -> LinearForm:
    """The numbers of a layer's products."""
    gemms = {name: _gemm(gemm) for name, gemm in core.form().items()}
    return LinearForm(**gemms, histories=tuple(core.histories))


def _gemm(gemm: dict[str, Any]) -> GemmForm:
    narrow = gemm["narrow_output"]
    return GemmForm(
        operand_form(gemm["left"]), operand_form(gemm["right"]), gemm["hadamard"],
        gemm["hadamard_signs"], gemm["center"], gemm["output"],
        operand_form(narrow) if narrow else None,
    )  # fmt: skip


def operand_form(operand: dict[str, Any]) -> OperandForm:
    """Of what the core says of a cast: its keys as TOML and the names of its elements."""
    elements = [_element(name) for name in operand["elements"]]
    return OperandForm.of(tomllib.loads(operand["keys"]), *elements)


def _element(name: str) -> Element:
    row = element_named(name)
    return Element(
        row.short_name, row.kind, row.bits, row.exponent_bits, row.mantissa_bits, row.bias,
        row.specials,
    )  # fmt: skip


def noise_of(core: _core.WeightNoise) -> Optional[NoiseForm]:
    """What noise on a layer's weight is made of; a recipe may have none."""
    form = core.form()
    if form["kind"] == "none":
        return None
    block = "tensor" if form.pop("is_one_block") else TILE
    form["shape"] = tuple(form["shape"])
    form["cast"] = operand_form(form["cast"])
    form["formats"] = tuple(_element(name) for name in form["formats"])
    return NoiseForm(**form, block=block)


def delayed_of(form: LinearForm, scales: Optional[Tensor]) -> Optional[dict[str, Delayed]]:
    """Views of a layer's buffer of delayed scales, by the name of the operand."""
    if scales is None:
        return None
    found, at = {}, 0
    for (name, cast), places in zip(_casts(form), form.histories):
        if cast.scaling == "delayed":
            end = at + 1 + cast.amax_history
            found[name] = Delayed(scales[at : at + 1], scales[at + 1 : end])
        at += 1 + places if places else 0
    return found


def _casts(form: LinearForm) -> list[tuple[str, OperandForm]]:
    return [
        (name, getattr(getattr(form, role.gemm), role.side)) for name, role in ROLES.items()
    ]


def begin_scales(before: LinearForm, form: LinearForm, scales: Tensor) -> None:
    """In a new phase those that are others than before begin anew."""
    casts = dict(_casts(before))
    for name, delayed in (delayed_of(form, scales) or {}).items():
        if casts[name] != dict(_casts(form))[name]:
            delayed.encode_scale.fill_(1.0)
            delayed.history.zero_()


def roll_scales(form: LinearForm, scales: Tensor) -> None:
    """At the end of a step."""
    casts = dict(_casts(form))
    for name, delayed in (delayed_of(form, scales) or {}).items():
        delayed.roll(casts[name])
