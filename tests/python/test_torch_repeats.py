"""Which pass of a step checkpointing repeats, in both engines."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
import narrowgauge.torch as ngt  # noqa: E402: needs torch
from narrowgauge.torch import _state  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

ENGINES = ["kernels", "torch"]


class Model(nn.Module):
    def __init__(self, repeat: bool | None, engine: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Linear(32, 64)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64)) for _ in range(2)
        )
        self.repeat = repeat  # None: nothing is; True: reentrant
        ngt.convert(self, "fp4-all-the-way", skip="first", engine=engine)

    def forward(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = block(x) if self.repeat is None else checkpoint(block, x, use_reentrant=self.repeat)
        return x.square().mean()


def batch(number: int) -> torch.Tensor:
    return torch.randn(8, 32, generator=torch.Generator().manual_seed(number))


def gradients(repeat: bool | None, engine: str, batches: tuple[int, int], order: str):
    model = Model(repeat, engine)
    losses = [model(batch(batches[0]))]
    with torch.no_grad():
        model(batch(9))  # a look in between counts for nothing
    losses.append(model(batch(batches[1])))
    if order == "both":
        sum(losses).backward()
    else:
        for number in order:
            losses[int(number)].backward()
    return [p.grad for p in model.parameters()]


@pytest.mark.parametrize("repeat", [True, False])
@pytest.mark.parametrize("engine", ENGINES)
def test_passes_before_their_backward_pass_have_their_draws(engine, repeat, monkeypatch):
    def check(batches, order):
        found = gradients(repeat, engine, batches, order)
        expected = gradients(None, engine, batches, order)
        assert all(torch.equal(a, b) for a, b in zip(found, expected)), (batches, order)

    for order in ("both", "01", "10"):
        check((0, 1), order)
    for order in ("both", "10"):  # of the same input the newest is repeated first
        check((0, 0), order)
    # Values of another device are not looked at.
    monkeypatch.setattr(_state, "fingerprint", lambda x: (tuple(x.shape), 0))
    for order in ("both", "10"):
        check((0, 1), order)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_pass_without_gradients_changes_no_draw(engine):
    found = []
    for looks in (False, True):
        model = Model(None, engine)
        for number in range(2):
            if looks:
                with torch.no_grad():
                    model(batch(5))
            model(batch(number)).backward()
        found.append([p.grad for p in model.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*found))


def test_layers_that_are_called_by_themselves_draw_alike_in_both_engines():
    found = []
    for engine in ENGINES:
        model = Model(None, engine)
        layer = model.blocks[0][0]
        for number in range(3):
            layer(torch.randn(8, 64, generator=torch.Generator().manual_seed(number)))
            layer(batch(number).repeat(1, 2)).sum().backward()
            said = ngt.describe(model)["blocks.0.0"]
            found.append((engine, said["step"], said["micro"]))
            ngt.step(model)
        model(batch(0)), model(batch(1))
        found.append((engine, "passes", ngt.describe(model)["blocks.0.0"]["micro"]))
    assert [row[1:] for row in found[:4]] == [row[1:] for row in found[4:]]
    assert found[3][2] == 1 and found[0][2] == found[2][2] == 65536
