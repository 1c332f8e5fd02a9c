"""narrowgauge.torch: what other code does to converted models, or past their layers."""

from __future__ import annotations

import pytest
from test_torch_refusals import refusal

torch = pytest.importorskip("torch")
import narrowgauge.torch as ngt  # noqa: E402: needs torch
from torch import nn  # noqa: E402
from torch.nn.utils import parametrizations  # noqa: E402


def layer(recipe: str = "mxfp4-all", engine: str = "auto") -> nn.Linear:
    torch.manual_seed(0)
    made = nn.Linear(64, 32, bias=False)
    ngt.convert(made, recipe, names=lambda _: "blocks.1.mlp.up", blocks=8, engine=engine)
    return made


def test_another_tensor_at_the_address_of_a_weight_is_seen():
    """Each call has a weight that differs in a few values, which no sample sees, and frees it."""
    functional_call = pytest.importorskip("torch.func").functional_call
    of, x = layer().eval(), torch.randn(4, 64)
    base = of.weight.detach()
    with torch.no_grad():
        y = of(x)
        for row in range(8):
            other = base.clone()
            other[row, 1:4] += 1.0
            changed = functional_call(of, {"weight": other}, x) != y
            assert changed.any(0).nonzero().flatten().tolist() == [row]
            del other


@pytest.mark.parametrize("depth", [0, 2])
def test_the_fast_path_of_encoders_does_not_pass_their_layers_over(depth):
    torch.manual_seed(0)
    model = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True)
    if depth:
        model = nn.TransformerEncoder(model, depth)
    model.eval()
    x = torch.randn(2, 8, 64)
    with torch.no_grad():
        wide = model(x)
        ngt.convert(model, "mxfp4-all", names=lambda name: "blocks.1.mlp.up", blocks=8)
        narrow = model(x)
    # With gradients attention sums otherwise, by which a few codes change.
    assert (narrow - model(x).detach()).norm() < 0.2 * (narrow - wide).norm()
    with torch.no_grad():
        assert torch.equal(ngt.restore(model)(x), wide)
    assert not any("ng_fast_path" in module.__dict__ for module in model.modules())


def test_layers_that_another_call_skips_are_named_with_their_recipe():
    model = nn.ModuleDict({"blocks": nn.ModuleList(nn.Linear(32, 32) for _ in range(2)),
                           "head": nn.Linear(32, 8)})  # fmt: skip
    names = {"blocks.{n}": "blocks.{n}.mlp.up", "head": "head"}
    ngt.convert(model, "mxfp4-all", names=names)
    report = ngt.convert(model, "nvfp4", skip=["head"], names=names)
    assert "head: stays in mxfp4-all, as it was" in report.warnings
    assert "mxfp4-all" in repr(model["head"]) and "nvfp4" in repr(model["blocks"][0])


@pytest.mark.parametrize("again", ["convert", "restore"])
def test_a_class_that_came_after_convert_is_named(again):
    of = nn.Sequential(layer())
    parametrizations.orthogonal(of[0])
    assert of(torch.ones(2, 64)).shape == (2, 32)
    call = ngt.restore if again == "restore" else lambda m: ngt.convert(m, "nvfp4")
    said = refusal(lambda: call(of))
    assert said.startswith("0: is a ParametrizedLinear since it was converted")


@pytest.mark.parametrize("engine", ["auto", "torch"])
def test_autocast_to_fp16_is_refused(engine):
    of = layer(engine=engine)
    try:
        context = torch.autocast("cpu", torch.float16)
        context.__enter__()
    except RuntimeError:  # torch before 2.4 has none on the CPU
        pytest.skip("this torch has no autocast to FP16 on the CPU")
    try:
        if not torch.is_autocast_enabled("cpu"):
            pytest.skip("this torch has no autocast to FP16 on the CPU")
        said = refusal(lambda: of(torch.ones(2, 64)))
    finally:
        context.__exit__(None, None, None)
    assert "autocast to torch.float16: torch.autocast(..., torch.bfloat16)" in said


def test_parameters_that_ranks_divide_are_refused():
    parameter = nn.Parameter(torch.ones(32, 32))
    parameter.to_local = lambda: parameter  # as those of fully_shard have
    said = refusal(lambda: ngt.optimizer([parameter], "kahan-bf16", lr=0.1))
    assert said.startswith("parameter 0: is divided among ranks: torch.optim")


def test_weights_of_distributed_data_parallel_do_not_become_bf16(tmp_path):
    dist = torch.distributed
    store = dist.FileStore(str(tmp_path / "store"), 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        ddp = nn.parallel.DistributedDataParallel(nn.Sequential(layer("kahan-bf16")))
        said = refusal(lambda: ngt.optimizer(ddp, "kahan-bf16", lr=0.1))
        assert "DistributedDataParallel waits for gradients in FP32" in said
        ngt.optimizer(ddp, "bf16", lr=0.1)
    finally:
        dist.destroy_process_group()


def test_torch_operations_say_that_their_sums_are_torchs():
    of = nn.Linear(64, 32)
    report = ngt.convert(of, "bf16-tile", names=lambda _: "head", engine="torch")
    assert "torch operations sum in torch's order, not as the recipe's sum" in report.warnings
