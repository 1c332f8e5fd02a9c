"""Models that are converted again, restored, or moved by more than one optimizer."""

from __future__ import annotations

import pytest

import narrowgauge as ng

torch = pytest.importorskip("torch")
import narrowgauge.torch as ngt  # noqa: E402: needs torch
from torch import nn  # noqa: E402

ENGINES = ["kernels", "torch"]
has_hooks = pytest.mark.skipif(
    not hasattr(torch.optim.Optimizer, "register_step_post_hook"), reason="needs torch 2.0 or later"
)
NAMES = {"0": "blocks.0.mlp.up", "2": "blocks.0.mlp.down"}


def converted(recipe: str, engine: str) -> nn.Module:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 64))
    ngt.convert(model, recipe, names=NAMES, engine=engine)
    return model


def train(model: nn.Module, optimizer, steps: int) -> None:
    for _ in range(steps):
        model(torch.ones(4, 64)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def step_of(model: nn.Module) -> int:
    return ngt.describe(model)["0"]["step"]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_model_that_is_converted_again_goes_on_at_its_step(engine):
    model = converted("mxfp4-sr", engine)
    optimizer = ngt.optimizer(model, "fp32", engine=engine)
    train(model, optimizer, 2)
    ngt.convert(model, "nvfp4-all", names=NAMES, engine=engine)
    assert step_of(model) == 2
    train(model, optimizer, 2)
    assert step_of(model) == optimizer.param_groups[0]["narrowgauge_step"] == 4

    # Its rule counts these steps, too: as an optimizer that continues with its state.
    other = converted("mxfp4-sr", engine)
    expected = ngt.optimizer(other, "fp32", engine=engine)
    expected.load_state_dict(optimizer.state_dict())
    for a, b in zip(model.parameters(), other.parameters()):
        b.data.copy_(a.data)
        a.grad, b.grad = torch.full_like(a, 0.5), torch.full_like(b, 0.5)
    optimizer.step(), expected.step()
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters()))

    ngt.convert(model, "mxfp4-sr", names=NAMES, engine=engine, step=9)
    assert step_of(model) == 9


@has_hooks
@pytest.mark.parametrize("engine", ENGINES)
def test_an_optimizer_moves_a_model_that_is_converted_after_it_was_made(engine):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 64))
    optimizer = ngt.optimizer(model, "fp32", names=NAMES, engine=engine)
    train(model, optimizer, 2)
    ngt.convert(model, "mxfp4-sr", names=NAMES, engine=engine)
    train(model, optimizer, 3)
    assert step_of(model) == optimizer.param_groups[0]["narrowgauge_step"] == 5


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("of_torch", [True, False])
def test_optimizers_go_on_when_a_model_is_restored(engine, of_torch):
    model = converted("mxfp4-sr", engine)
    if of_torch:
        optimizer = torch.optim.AdamW(model.parameters())
        ngt.attach(model, optimizer)
    else:
        optimizer = ngt.optimizer(model, "fp32", engine=engine)
    train(model, optimizer, 2)
    state = optimizer.state_dict()
    ngt.restore(model)
    train(model, optimizer, 1)
    optimizer.load_state_dict(state)
    assert optimizer.param_groups[0]["narrowgauge_step"] == 2
    before = [p.clone() for p in model.parameters()]
    train(model, optimizer, 1)
    assert all(not torch.equal(a, b) for a, b in zip(before, model.parameters()))
    assert of_torch or optimizer.param_groups[0]["narrowgauge_step"] == 3


def test_an_optimizer_of_two_models_moves_each_once():
    first, second = converted("bf16", "auto"), converted("bf16", "auto")
    optimizer = torch.optim.SGD([*first.parameters(), *second.parameters()], lr=0.1)
    for model in (first, second, first, second):
        ngt.attach(model, optimizer)
    (first(torch.ones(2, 64)) + second(torch.ones(2, 64))).sum().backward()
    optimizer.step()
    assert step_of(first) == step_of(second) == 1


@pytest.mark.parametrize("engine", ENGINES)
def test_a_group_that_is_refused_is_not_added(engine):
    model = nn.Linear(8, 8)
    optimizer = ngt.optimizer(model, "sr-bf16", engine=engine)
    for group in ({"lr": "x"}, {"params": [nn.Parameter(torch.ones(4).half())]}):
        with pytest.raises(ng.Error, match='"x" is no number|float16'):
            optimizer.add_param_group({"params": [nn.Parameter(torch.ones(4, 4))], **group})
    assert len(optimizer.param_groups) == 1
    model(torch.ones(2, 8)).sum().backward()
    optimizer.step()


def test_a_state_without_a_step_begins_anew():
    model = nn.Linear(8, 8)
    optimizer = ngt.optimizer(model, "sr-bf16")
    optimizer.load_state_dict(torch.optim.AdamW(model.parameters()).state_dict())
    model(torch.ones(2, 8)).sum().backward()
    optimizer.step()
    state = optimizer.state_dict()
    assert state["param_groups"][0]["narrowgauge_step"] == 1
    state["param_groups"][0]["narrowgauge_step"] = "x"
    with pytest.raises(ng.Error, match='^narrowgauge_step: "x" is no whole number'):
        optimizer.load_state_dict(state)
    with pytest.raises(ng.Error, match="a number from 0 to 0.9999999"):
        ngt.optimizer(model, "sr-bf16", betas=(0.9, 1.0))
