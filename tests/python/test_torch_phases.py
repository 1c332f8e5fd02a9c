"""narrowgauge.torch: phases of a recipe follow the steps of training."""

from __future__ import annotations

import copy

import pytest

import narrowgauge as ng

torch = pytest.importorskip("torch")
import narrowgauge.torch as ngt  # noqa: E402: needs torch
from test_torch_layers import Model, text  # noqa: E402

PHASED = {"inherit": "fp8-delayed", "phase": [{"start": 0.5, "linear": "bf16"}]}
DELAYED_TWICE = {"inherit": "fp8-delayed", "phase": [
    {"start": 0.5, "linear": {"fprop": {"input": {"format": "fp8_e5m2", "scaling": "delayed"}}}}]}


def passed(model) -> torch.Tensor:
    """What a pass in training gives; the step after it."""
    y = model(text())
    y.square().mean().backward()
    ngt.step(model)
    return y


@pytest.mark.parametrize("engine", ["kernels", "torch"])
def test_phases_follow_the_steps_of_training(engine):
    model, wide = Model().train(), Model().train()
    assert not ngt.convert(model, PHASED, steps=4, engine=engine).warnings
    ngt.convert(wide, "bf16", engine=engine)
    phases, same = [], []
    for _ in range(4):
        phases.append(ngt.describe(model)["h.0.mlp.c_fc"]["phase"])
        same.append(torch.equal(passed(model), passed(wide)))
    assert phases == [0, 0, 1, 1] and same == [False, False, True, True]
    assert "without `steps`" in str(ngt.convert(model, PHASED))
    with pytest.raises(ng.Error, match="steps"):
        ngt.convert(model, PHASED, steps=0)


@pytest.mark.parametrize("engine", ["kernels", "torch"])
def test_scales_that_are_others_in_a_phase_begin_anew(engine):
    model = Model().train()
    ngt.convert(model, DELAYED_TWICE, steps=4, engine=engine)
    scales = model.h[0].mlp["c_fc"].ng_scales
    places = scales.numel() // 6  # of fprop.input first, then of its weight
    passed(model)
    before = scales.clone()
    assert (before[[0, places]] != 1).all()
    passed(model)
    assert scales[0] == 1 and not scales[1:places].any()
    assert scales[places] != 1 and scales[places:].any()


def test_a_phase_is_carried_by_the_optimizer():
    def made():
        model = Model().train()
        ngt.convert(model, DELAYED_TWICE, steps=6)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        ngt.attach(model, optimizer)
        return model, optimizer

    def moved(model, optimizer):
        model(text()).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    model, optimizer = made()
    for _ in range(4):
        moved(model, optimizer)
    again, optimizer_again = made()
    again.load_state_dict(copy.deepcopy(model.state_dict()))
    optimizer_again.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    assert ngt.describe(again)["h.0.mlp.c_fc"]["phase"] == 1
    moved(model, optimizer), moved(again, optimizer_again)
    for one, other in zip(model.state_dict().values(), again.state_dict().values()):
        assert torch.equal(one, other)
