"""narrowgauge.torch under inductor, and behind a Ctrl-C in the middle of a backward pass."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import sysconfig
import threading
import time
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
import narrowgauge.torch as ngt  # noqa: E402: needs torch
from test_torch_layers import Model, text  # noqa: E402
from torch import nn  # noqa: E402

ENGINES = ["kernels", "torch"]


@pytest.fixture
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def why_no_inductor() -> str:
    """What inductor lacks here; empty: nothing."""
    if not hasattr(torch.library, "custom_op"):
        return "needs torch 2.4 or later"
    compiler = os.environ.get("CXX", "clang++" if sys.platform == "darwin" else "g++")
    if shutil.which(compiler) is None:
        return f"needs a C++ compiler: no {compiler} here"
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        return "needs the headers of Python"
    return ""


@pytest.fixture
def inductor(one_thread, tmp_path, monkeypatch):
    """Compiles by inductor into a folder of the test's own: nothing comes from an earlier run."""
    if why := why_no_inductor():
        pytest.skip(why)
    import torch._inductor.config as config

    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "inductor"))
    torch._dynamo.reset()
    with config.patch(compile_threads=1):  # leaves no processes behind
        yield lambda model: torch.compile(model, fullgraph=True)
    torch._dynamo.reset()


def losses(recipe: str, compiled=lambda model: model) -> list[float]:
    """Of two steps of two micro-batches."""
    model = Model()
    ngt.convert(model, recipe)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    ngt.attach(model, optimizer)
    call, found = compiled(model), []
    for _ in range(2):
        for micro in range(2):
            loss = call(text(seed=micro).requires_grad_()).square().mean()
            loss.backward()
            found.append(loss.item())
        optimizer.step()
        optimizer.zero_grad()
    return found


@pytest.mark.parametrize("recipe", ["mxfp4-sr-rht", "nvfp4"])
def test_kernels_train_alike_under_inductor(recipe, inductor):
    eager = losses(recipe)
    assert eager[0] != eager[2]  # the step moved the weights
    assert losses(recipe, inductor) == pytest.approx(eager, rel=0, abs=1e-3)


def test_torch_operations_give_the_same_under_inductor(inductor):
    def passes(compiled=lambda layer: layer):
        torch.manual_seed(0)
        layer = nn.Linear(64, 64)
        ngt.convert(layer, "mxfp4-all", engine="torch", blocks=4)
        x = torch.randn(8, 64).requires_grad_()
        y = compiled(layer)(x)
        y.square().sum().backward()
        return y.detach(), x.grad, layer.weight.grad, layer.bias.grad

    for found, expected in zip(passes(inductor), passes()):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def wide_layer(engine: str) -> nn.Linear:
    """Large enough to be slow; nothing is drawn, so that each pass has the same bits."""
    torch.manual_seed(0)
    layer = nn.Linear(2048, 2048)
    ngt.convert(layer, "fp8-current", engine=engine, blocks=4)
    return layer


def wide_pass(layer: nn.Linear, x: torch.Tensor, at_backward=None) -> list[torch.Tensor]:
    """Output and gradients. at_backward: called as the backward pass begins."""
    layer.zero_grad(set_to_none=True)
    x = x.clone().requires_grad_()
    y = layer(x)
    if at_backward is not None:
        y.register_hook(at_backward)
    y.backward(x.detach())
    return [y.detach(), x.grad, layer.weight.grad, layer.bias.grad]


def rows_of_a_second(engine: str) -> int:
    """Of a backward pass on one thread. torch without a BLAS of its own is a hundred times slower
    than others."""
    begun = []
    wide_pass(wide_layer(engine), torch.ones(64, 2048), lambda _: begun.append(time.monotonic()))
    return min(max(64, int(64 / (time.monotonic() - begun[0]))), 1024)


@pytest.mark.parametrize("engine", ENGINES)
def test_ctrl_c_in_backward_leaves_the_layer_as_it_was(engine, one_thread):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(rows_of_a_second(engine), 2048, generator=generator)
    expected = wide_pass(wide_layer(engine), x)
    layer = wide_layer(engine)
    ctrl_c = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        wide_pass(layer, x, lambda _: ctrl_c.start())
        time.sleep(60)  # a fast machine was done with the pass before: it comes here
    ctrl_c.join()
    for _ in range(2):
        for found, its in zip(wide_pass(layer, x), expected):
            assert torch.equal(found, its)
