"""How a parameter persists and moves, as the core says it, for torch operations."""

from __future__ import annotations

from typing import Any

from ._form import operand_form
from ._operations import MuonNumbers, StoredForm, UpdateForm


def update_form_of(said: dict[str, Any]) -> UpdateForm:
    """Of what _core.UpdateForm.form() gave."""
    own = ("rule", "update", "momentum_feedback", "rtol", "max_iters", "search")
    return UpdateForm(
        **{key: said[key] for key in own},
        sections=tuple((rows, block) for rows, block in said["sections"]),
        muon=MuonNumbers(**said["muon"]),
        tensors={tensor["part"]: _stored(tensor) for tensor in said["tensors"]},
    )


def _stored(said: dict[str, Any]) -> StoredForm:
    return StoredForm(
        operand_form(said["cast"]), said["rows"], said["cols"], said["purpose"],
        tuple(said["states"]), said["is_positive"],
    )
