"""One step of one parameter: an optimizer's rule, the rounding into what is stored, and moments as
they are stored. The steps are those of src/backend/ref/update, the result has the same bits.

[recipes §4.2, §5, §6]
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Mapping

import torch
from torch import Tensor

from . import residual
from .bits import quotient
from .kept import Kept
from .muon import MuonNumbers, look_ahead, orthogonal
from .philox import Key, random_integers
from .rules import Numbers, Rule, Sections, block_moment, of_rows, rest
from .step_search import search_step, search_step_as_printed
from .stored import (
    StoredForm, kept_encode_scale, load, rounded, store, store_weight, where, zeros,
)  # fmt: skip

#: What persists of a parameter: "value", and where there are such "master", "carry", "moment1",
#: "moment2".
State = Mapping[str, Kept]


@dataclass(frozen=True)
class UpdateForm:
    """How a parameter persists and moves."""

    rule: str  #: adamw, adam_mini, sgd, muon
    update: str  #: nearest, stochastic, precision_aware, kahan, residual: where there is no master
    momentum_feedback: bool
    rtol: float  #: precision_aware, as max_iters and search
    max_iters: int
    search: str  #: norms, printed
    sections: Sections  #: of rows, for adam_mini and muon
    muon: MuonNumbers
    tensors: Mapping[str, StoredForm]  #: of the state, in the order of checkpoints

    @property
    def needs_fp64(self) -> bool:
        by_update = self.update in ("precision_aware", "residual") and not self.is_direct
        has_powers = any(stored.form.expand for stored in self.tensors.values())
        return by_update or has_powers or self.rule == "adam_mini"

    @property
    def is_direct(self) -> bool:
        """The rule's new weight is rounded, into the master or into what is FP32."""
        return "master" in self.tensors or self.tensors["value"].form.is_fp32


#: What goes beyond the range of its format, by the number that a step says it by.
BEYOND = ("", "moment1", "moment2", "weight")


@dataclass(frozen=True)
class _Step:
    """A parameter in one step. m, v: the moments of this step, v as wide as the weight or as rows;
    none of what the rule has none of."""

    form: UpdateForm
    state: State
    rule: Rule
    key: Key
    w: Tensor  #: of the master, where there is one
    m: Tensor
    v: Tensor | None
    g: Tensor

    def key_of(self, part: str) -> Key:
        return replace(self.key, purpose=self.form.tensors[part].purpose)

    def direction(self) -> Tensor:
        return self.rule.direction(self.w, self.m, self.v, self.g)

    def new_weight(self) -> Tensor:
        return self.rule.new_weight(self.w, self.m, self.v, self.g)


def put(values: Tensor, form: UpdateForm) -> dict[str, Kept]:
    """Value, master and carry as training begins with these values, FP32."""
    found = {}
    if "master" in form.tensors:
        master = form.tensors["master"].rounded_by("nearest")
        found["master"] = store(values.clone(), master)
        values = load(found["master"], master)
    found["value"] = store(values.clone(), form.tensors["value"].rounded_by("nearest"))
    if "carry" in form.tensors:
        found["carry"] = zeros(form.tensors["carry"], values.device)
    return found


def taken(values: Tensor, state: State, form: UpdateForm) -> dict[str, Kept]:
    """The state of a weight that has these values now: carries are empty where they are others."""
    changed = (load(state["value"], form.tensors["value"]) != values).any()
    now = put(values, form)
    return {part: where(changed, now[part], of) if part in now else of
            for part, of in state.items()}  # fmt: skip


def step(
    form: UpdateForm, state: State, grad: Tensor, numbers: Numbers, key: Key
) -> tuple[dict[str, Kept], Tensor]:
    """The state after the step, and which of BEYOND it is, (). grad: FP32."""
    at, moments = _begun(form, state, grad, Rule(form.rule, numbers), key)
    seen = dict(moments)  # before rounding gives back to them
    if form.is_direct:
        x = at.new_weight()
        found = _put_new_weight(at, x)
    elif form.momentum_feedback:
        x = at.new_weight()
        found = _put_with_feedback(at, x, moments)
    else:
        u = at.direction()
        x = at.w + u * numbers.lr
        found = _RULES[form.update](at, u, x)
    for part, values in moments.items():
        found[part] = store(values, form.tensors[part], at.key_of(part))
    return {part: found[part] for part in state}, _beyond(form, seen, x)


def _begun(
    form: UpdateForm, state: State, grad: Tensor, rule: Rule, key: Key
) -> tuple[_Step, dict[str, Tensor]]:
    """With the moments of this step, and what of them is stored."""
    moments = {
        part: load(state[part], form.tensors[part]) for part in ("moment1", "moment2")
        if part in state
    }  # fmt: skip
    owner = "master" if "master" in state else "value"
    w, m, v = load(state[owner], form.tensors[owner]), moments["moment1"], moments.get("moment2")
    if rule.kind == "muon":
        moments["moment1"], ahead = look_ahead(m, grad, form.muon.momentum)
        g = orthogonal(ahead, form.sections, form.muon)
        return _Step(form, state, rule, key, w, m, None, g), moments
    if rule.kind == "adam_mini" and v is not None:
        moments["moment2"] = block_moment(v, grad, form.sections, rule.n.beta2)
        v = of_rows(moments["moment2"], form.sections)
    m, v = rule.moved(grad, m, v)
    moments["moment1"] = m
    if v is not None and rule.kind == "adamw":
        moments["moment2"] = v
    return _Step(form, state, rule, key, w, m, v, grad), moments


def _beyond(form: UpdateForm, moments: Mapping[str, Tensor], x: Tensor) -> Tensor:
    found = torch.where(torch.isfinite(x).all(), 0, BEYOND.index("weight"))
    for part in ("moment2", "moment1"):
        if part in moments:
            fits = moments[part].abs().amax() <= form.tensors[part].largest  # not NaN
            found = torch.where(fits, found, BEYOND.index(part))
    return found


# What is rounded ------------------------------------------------------------------------------


def _put_new_weight(at: _Step, x: Tensor) -> dict[str, Kept]:
    """x into the master or the weight; the value is made of the master as it is stored."""
    tensors, before = at.form.tensors, at.state["value"]
    value = tensors["value"]
    if "master" not in tensors:
        return {"value": store_weight(x, value, before)}
    master = store(x, tensors["master"])
    of_master = load(master, tensors["master"])
    return {"value": store_weight(of_master, value.rounded_by("nearest"), before),
            "master": master}  # fmt: skip


def _put_with_feedback(
    at: _Step, x: Tensor, moments: dict[str, Tensor]
) -> dict[str, Kept]:
    """The error of rounding goes into the first moment; a rate of zero leaves it alone."""
    n = at.rule.n
    rounding = "stochastic" if at.form.update == "stochastic" else "nearest"
    value = at.form.tensors["value"].rounded_by(rounding)
    stored = store_weight(x, value, at.state["value"], at.key_of("value"))
    if n.lr != 0 and at.v is not None:
        error = x - load(stored, value)
        root = at.rule.root(at.v) * n.correction1
        rate = quotient(torch.full((), n.lr, device=x.device), root)
        moments["moment1"] = at.m - quotient(error * rest(n.beta1), rate * n.beta1)
    return {"value": stored}


def _nearest(at: _Step, u: Tensor, x: Tensor) -> dict[str, Kept]:
    value = at.form.tensors["value"].rounded_by("nearest")
    return {"value": store_weight(x, value, at.state["value"])}


def _stochastic(at: _Step, u: Tensor, x: Tensor) -> dict[str, Kept]:
    value = at.form.tensors["value"].rounded_by("stochastic")
    return {"value": store_weight(x, value, at.state["value"], at.key_of("value"))}


def _kahan(at: _Step, u: Tensor, x: Tensor) -> dict[str, Kept]:
    """y = D - c;  w' = RN(w + y);  c' = (w' - w) - y"""
    value, carry = at.form.tensors["value"].rounded_by("nearest"), at.form.tensors["carry"]
    y = u * at.rule.n.lr - load(at.state["carry"], carry)
    stored = store_weight(at.w + y, value, at.state["value"])
    return {"value": stored, "carry": store(load(stored, value) - at.w - y, carry)}


def _residual(at: _Step, u: Tensor, x: Tensor) -> dict[str, Kept]:
    """x = (w + c) + D;  w' = RN(x);  c' = x - w', rounded stochastically"""
    value, carry = at.form.tensors["value"].rounded_by("nearest"), at.form.tensors["carry"]
    before = at.state["value"]
    x = residual.with_residual(before, at.state["carry"], value, carry) + u * at.rule.n.lr
    stored = store_weight(x, value, before)
    rows, cols = x.shape
    random = random_integers(at.key_of("carry"), rows, cols, cols, 16, x.device)
    moved, rests = residual.split(x, stored, value, carry, random)
    return {"value": moved, "carry": rests}


def _precision_aware(at: _Step, u: Tensor, x: Tensor) -> dict[str, Kept]:
    """w' = RN(w + αu) with ‖w' - w‖ = lr·‖u‖ within rtol. It asks the host for each α."""
    form, lr = at.form, at.rule.n.lr
    value, before = form.tensors["value"].rounded_by("nearest"), at.state["value"]
    encode = kept_encode_scale(x, value, before)

    def norm_at(alpha: float) -> float:
        moved = rounded(at.w + u * alpha, value, None, encode).values
        return _norm(moved.to(torch.float64) - at.w.to(torch.float64))

    length = _norm(u.to(torch.float64))
    if not lr * length > 0:
        return {"value": before}
    if form.search == "printed":
        target = lr * (length * length)
        alpha = search_step_as_printed(norm_at, target, form.rtol, form.max_iters)
    else:
        alpha = search_step(norm_at, lr, lr * length, form.rtol, form.max_iters)
    return {"value": store(at.w + u * alpha, value, None, encode) if alpha > 0 else before}


def _norm(x: Tensor) -> float:
    return float((x * x).sum().sqrt())


#: How w + lr·u, x in FP32, goes into a value without master.
_RULES = {
    "nearest": _nearest,
    "stochastic": _stochastic,
    "kahan": _kahan,
    "residual": _residual,
    "precision_aware": _precision_aware,
}
