"""Gradients of DistributedDataParallel by gloo are those of `narrowgauge reduce`."""

from __future__ import annotations

import os
import socket

import numpy as np
import pytest
from conftest import tensors, write_tensors

torch = pytest.importorskip("torch")
import narrowgauge.torch as ngt  # noqa: E402: needs torch
from torch import nn  # noqa: E402

dist = pytest.importorskip("torch.distributed")
STEPS = 2


class Model(nn.Module):
    """One layer that GPT-2's table names; `turned`: its weight is (K, N), as GPT-2's are."""

    def __init__(self, turned: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        layer = nn.Linear(40, 24)
        if turned:
            from transformers.pytorch_utils import Conv1D

            plain, layer = layer, Conv1D(24, 40)
            layer.weight.data, layer.bias = plain.weight.data.t().contiguous(), plain.bias
        self.h = nn.ModuleList([nn.ModuleDict({"mlp": nn.ModuleDict({"c_fc": layer})})])

    @property
    def layer(self) -> nn.Linear:
        return self.h[0]["mlp"]["c_fc"]

    def forward(self, x):
        return self.layer(x)


def gradients(model: nn.Module, step: int, rank: int) -> tuple[list, list]:
    x = torch.randn(6, 40, generator=torch.Generator().manual_seed(10 * step + rank))
    model.zero_grad()
    model(x).square().sum().backward()
    layer = (model.module if hasattr(model, "module") else model).layer
    grad = layer.weight.grad
    return (grad if len(grad) == 24 else grad.t()).tolist(), layer.bias.grad.tolist()


def work(rank: int, ranks: int, recipe: str, turned: bool, port: int, folder: str) -> None:
    # gloo would ask for the address of the machine's own name.
    os.environ.update(
        MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo"
    )  # fmt: skip
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    model = Model(turned)
    ngt.convert(model, recipe)
    ddp = nn.parallel.DistributedDataParallel(model)
    hook = ngt.gradient_hook(ddp, recipe)
    means, scales = [], []
    for step in range(STEPS):
        scales.append(hook.state_dict()["scales"].get(0, (0.0, 0.0))[0])
        means.append(gradients(ddp, step, rank))
    alone = Model(turned)
    ngt.convert(alone, recipe)
    alone.load_state_dict(ddp.module.state_dict())  # which has the scales
    again = ngt.gradient_hook(nn.parallel.DistributedDataParallel(alone), recipe)
    assert again.state_dict()["scales"] == hook.state_dict()["scales"]
    late = Model(turned)
    ngt.convert(late, "bf16")  # which has none
    its = ngt.gradient_hook(nn.parallel.DistributedDataParallel(late), recipe)
    begun = its.state_dict()
    its.load_state_dict(hook.state_dict())
    assert its.state_dict() == hook.state_dict()
    its.load_state_dict(begun)
    late.load_state_dict(alone.state_dict())  # behind the hook's back
    assert its.state_dict()["scales"] == hook.state_dict()["scales"]
    with pytest.raises(ValueError, match="^scales: of 1 tensors where"):
        its.load_state_dict({"step": 0, "scales": {7: (0.0, 0.0)}})
    own = [gradients(alone, step, rank) for step in range(STEPS)]
    torch.save({"means": means, "scales": scales, "own": own}, f"{folder}/{rank}")
    dist.destroy_process_group()


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@pytest.mark.parametrize(
    ("recipe", "ranks", "turned"),
    [("fp8-lm", 2, False), ("fp8-lm", 4, False), ("bf16", 2, False), ("fp8-lm", 2, True)],
)
def test_ranks_end_in_the_sums_of_the_program(recipe, ranks, turned, program, tmp_path):
    if turned:
        pytest.importorskip("transformers")
    if not dist.is_available() or not dist.is_gloo_available():
        pytest.skip("this torch has no gloo")
    torch.multiprocessing.spawn(
        work, (ranks, recipe, turned, free_port(), str(tmp_path)), nprocs=ranks
    )
    seen = [torch.load(tmp_path / str(rank)) for rank in range(ranks)]
    first = {"bf16": 0, "fp8-lm": -500 * (ranks // 2)}[recipe]  # 1/√N [errata-2, 32]
    assert seen[0]["scales"][0] == first
    for step in range(STEPS):
        weights = np.array([one["own"][step][0] for one in seen], np.float32)
        write_tensors(tmp_path / "in", {"grad": weights})
        program(
            "reduce", tmp_path / "in", tmp_path / "out", "--recipe", recipe, "--step", step,
            "--mu-k", int(seen[0]["scales"][step]),
        )  # fmt: skip
        mean = tensors(tmp_path / "out")["mean"]
        biases = np.array([one["own"][step][1] for one in seen], np.float32)
        for one in seen:
            np.testing.assert_array_equal(np.array(one["means"][step][0], np.float32), mean)
            np.testing.assert_allclose(one["means"][step][1], biases.mean(0), rtol=1e-6)


def test_what_is_no_ddp_is_refused():
    with pytest.raises(ValueError, match="^ddp: Linear is no DistributedDataParallel: DDP"):
        ngt.gradient_hook(nn.Linear(2, 2), "fp8-lm")
