"""narrowgauge.torch: what nobody should give it is refused in one line, by ng.Error."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import narrowgauge as ng

torch = pytest.importorskip("torch")
import narrowgauge.torch as ngt  # noqa: E402: needs torch
from torch import nn  # noqa: E402

has_compile = pytest.mark.skipif(
    not hasattr(torch.library, "custom_op"), reason="needs torch 2.4 or later"
)


def model() -> nn.ModuleDict:
    return nn.ModuleDict({"blocks": nn.ModuleList(nn.Linear(32, 32) for _ in range(2))})


def layer(engine="auto", **words) -> nn.Linear:
    made = nn.Linear(32, 32, **words)
    ngt.convert(made, "mxfp4-all", blocks=4, engine=engine)
    return made


def refusal(call) -> str:
    with pytest.raises(ng.Error) as caught:
        call()
    assert "\n" not in str(caught.value)
    return str(caught.value)


# Arguments ----------------------------------------------------------------------------------------

THINGS = [None, 3, 3.5, -1, "zz", b"x", [3], {"a": 1}, object(), float("nan"), torch.tensor(3)]
#: What each keyword of convert takes of these.
CONVERT = {
    "recipe": [], "skip": [], "only": [None], "names": [None], "blocks": [None, 3],
    "seed": [3], "step": [None, 3], "steps": [None, 3], "engine": [],
}  # fmt: skip
#: And of optimizer.
OPTIMIZER = {
    "recipe": [], "lr": [3, 3.5], "betas": [], "eps": [], "weight_decay": [3, 3.5],
    "decay_vectors": [], "model": [None], "names": [None], "blocks": [None, 3],
    "heads": [None, 3], "kv_heads": [None], "least_narrow": [3], "seed": [None, 3],
}  # fmt: skip


def are_refused(call, key, right):
    for thing in THINGS:
        is_right = any(thing is one for one in right)
        if is_right or (isinstance(thing, torch.Tensor) and 3 in right):
            continue  # a tensor of one number is that number
        assert key in refusal(lambda thing=thing: call(thing)), thing


@pytest.mark.parametrize("key", CONVERT)
def test_arguments_of_convert_are_checked(key):
    def call(thing):
        words = {"recipe": "bf16", key: thing}
        ngt.convert(model(), **words)

    are_refused(call, "" if key == "recipe" else key, CONVERT[key])


@pytest.mark.parametrize("key", OPTIMIZER)
def test_arguments_of_optimizer_are_checked(key):
    def call(thing):
        words = {"recipe": "bf16", key: thing}
        ngt.optimizer(model(), **words)

    are_refused(call, "beta" if key == "betas" else "" if key == "recipe" else key, OPTIMIZER[key])


def test_words_of_refused_arguments():
    parameter = nn.Parameter(torch.zeros(3))
    for call, said in (
        (lambda: ngt.convert(model(), "bf16", skip=3), "skip: 3 is no text and no list of texts"),
        (lambda: ngt.convert(model(), "bf16", names=3), "names: 3 is no mapping, as "),
        (lambda: ngt.convert(model(), "bf16", names=lambda _: 3), "names: says int of blocks.0: "),
        (lambda: ngt.convert(model(), "bf16", names={"*": f"blocks.{1 << 40}.up"}), "names: "),
        (lambda: ngt.convert(model(), {"linear": object()}), "linear: object in a setting: "),
        (lambda: ngt.optimizer(model(), "bf16", lr="a"), "lr: \"a\" is no number"),
        (lambda: ngt.optimizer(model(), "bf16", betas=0.9), "betas: 0.9: two numbers, as "),
        (lambda: ngt.optimizer([], "bf16"), "model_or_params: optimizer got an empty"),
        (lambda: ngt.optimizer(nn.Sequential(), "bf16"), "model_or_params: has no parameters: a"),
        (lambda: ngt.optimizer([{"lr": 1.0}], "bf16"), "model_or_params: has no 'params': a model"),
        (lambda: ngt.optimizer([{"params": [parameter], "lr": "a"}], "bf16"), "lr: \"a\" is no"),
        (lambda: ngt.optimizer(nn.LazyLinear(3), "bf16"), "model: has no values yet: a pass of"),
        (lambda: ngt.optimizer([nn.Parameter(torch.ones(3, 1).expand(3, 4))], "bf16"),
         "parameter 0: has values that share memory: "),
    ):  # fmt: skip
        assert refusal(call).startswith(said)


def test_what_is_no_state_of_an_optimizer_is_refused():
    parameter = nn.Parameter(torch.ones(4, 8))
    optimizer = ngt.optimizer([parameter], "bf16")
    for state in (None, 3, {}, {**optimizer.state_dict(), "state": {0: {"a": 3}}},
                  {**optimizer.state_dict(), "param_groups": []}):  # fmt: skip
        assert refusal(lambda state=state: optimizer.load_state_dict(state))
    assert refusal(lambda: optimizer.step(3)) == "closure: is int: what can be called"
    parameter.grad = torch.ones(4, 8)
    optimizer.param_groups[0]["betas"] = 0.9
    assert refusal(optimizer.step).startswith("betas: 0.9: two numbers")
    converted = model()
    ngt.convert(converted, "bf16")
    plain = torch.optim.SGD(converted.parameters(), lr=0.1)
    ngt.attach(converted, plain)
    for number, said in (("a", '"a" is no whole number'), (-5, "-5: 0 to ")):
        state = plain.state_dict()
        state["param_groups"][0]["narrowgauge_step"] = number
        assert said in refusal(lambda state=state: plain.load_state_dict(state))


def test_arguments_of_checkpoints_and_exports_are_checked():
    converted = model()
    ngt.convert(converted, "bf16")
    optimizer = ngt.optimizer(converted, "bf16")
    for keep in ("a", None, 0, 1.5):
        words = {"keep": keep}
        assert refusal(
            lambda words=words: ngt.save_checkpoint("run", converted, optimizer, **words)
        ).startswith("keep: ")
    for use in (ngt.save_checkpoint, ngt.load_checkpoint):
        assert refusal(lambda use=use: use("run", converted, optimizer, hook=3)).startswith("hook")
        assert refusal(lambda use=use: use("run", converted, 3)).startswith("optimizer: is int: ")
    assert refusal(lambda: ngt.gradient_hook(converted, "bf16")).startswith("ddp: ModuleDict is no")
    assert refusal(lambda: ngt.export(converted, "a.gguf", weights=3)).startswith("weights: 3: ")


# Tensors ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["auto", "torch"])
def test_inputs_of_other_kinds_are_refused(engine):
    x = torch.randn(4, 32)
    one = layer(engine)
    for given, said in (
        (None, "input is NoneType: a torch.Tensor"), ([1.0], "input is list: a torch.Tensor"),
        (np.zeros((4, 32), np.float32), "input is ndarray: a torch.Tensor"),
        (x.to_sparse(), "input is torch.sparse_coo: a dense tensor"),
        (x.to_sparse_csr(), "input is torch.sparse_csr: a dense tensor"),
        (torch.nested.nested_tensor([x, x]), "input is nested: a dense tensor"),
        (x.double(), "input is torch.float64: torch.float32 or torch.bfloat16"),
        (x.to(torch.complex64), "input is torch.complex64: torch.float32 or torch.bfloat16"),
        (torch.zeros(4, 32, dtype=torch.bool), "input is torch.bool: torch.float32 or"),
        (torch.tensor(1.0), "input is (): (..., 32)"), (x[:, :0], "input is (4, 0): (..., 32)"),
        (x.to("meta"), "weight is on cpu, the input on meta: one device for both"),
    ):  # fmt: skip
        if hasattr(torch.nested, "nested_tensor") or not getattr(given, "is_nested", False):
            assert refusal(lambda given=given: one(given)).startswith(f"blocks.0.linear: {said}")
    assert one(x[0]).shape == (32,)
    one.to("meta")
    assert refusal(lambda: one(x)).startswith("blocks.0.linear: weight is on meta, the input on")


@pytest.mark.parametrize("engine", ["auto", "torch"])
def test_parameters_that_convert_did_not_see_are_refused(engine):
    x = torch.randn(4, 32)
    for name, value, said in (
        ("weight", nn.Parameter(torch.zeros(16, 32)), "weight is (16, 32): (32, 32), as it was"),
        ("weight", nn.Parameter(torch.eye(32).to_sparse()), "weight is torch.sparse_coo: a dense"),
        ("weight", None, "weight is NoneType: a torch.Tensor"),
        ("bias", nn.Parameter(torch.zeros(3)), "bias is (3,): (32,), as it was converted"),
        ("bias", None, "has no bias, otherwise than when it was converted: convert("),
    ):  # fmt: skip
        one = layer(engine)
        setattr(one, name, value)
        assert refusal(lambda one=one: one(x)).startswith(f"blocks.0.linear: {said}")
    one = layer(engine, bias=False)
    one.bias = nn.Parameter(torch.ones(32))
    assert "has a bias, otherwise than" in refusal(lambda: one(x))


@pytest.mark.parametrize("engine", ["auto", "torch"])
def test_what_changes_between_the_passes_is_refused_by_name(engine):
    x = torch.randn(4, 32)
    one = layer(engine)
    y = one(x).sum()
    with torch.no_grad():
        one.weight.mul_(2)
    said = "blocks.0.linear: its weight or its input was changed in place after the forward pass: "
    assert refusal(y.backward).startswith(said)
    y = one(x).sum()
    y.backward()
    assert refusal(y.backward).startswith("blocks.0.linear: backward a second time: loss.backward(")
    y = one(x).sum()
    one.weight.data = torch.zeros(8, 8)
    assert refusal(y.backward).startswith("blocks.0.linear: weight is (8, 8): (32, 32), as in")


@pytest.mark.parametrize("engine", ["auto", "torch"])
def test_a_graph_outlives_its_layer(engine):
    x = torch.randn(4, 32, requires_grad=True)
    one = layer(engine)
    (want,) = torch.autograd.grad(one(x).square().sum(), x, retain_graph=True)
    y = one(x).square().sum()
    del one
    gc.collect()
    y.backward()
    assert x.grad.shape == want.shape and x.grad.any()


@pytest.mark.parametrize("engine", ["auto", "torch"])
def test_gradients_of_gradients_are_refused_wherever_they_are_asked_for(engine):
    x = torch.randn(4, 32, requires_grad=True)
    one = layer(engine)
    (grad,) = torch.autograd.grad(one(x).square().sum(), x, create_graph=True)
    said = "backward: a gradient of a gradient: models without narrowgauge.torch.convert"
    assert refusal(lambda: torch.autograd.grad(grad.sum(), x)) == said


# Transforms ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["auto", "torch"])
def test_scripts_and_symbolic_traces_are_refused_by_name(engine):
    whole = nn.Sequential(nn.Linear(32, 32))
    ngt.convert(whole, "mxfp4-all", names={"0": "blocks.0.mlp.up"}, engine=engine)
    for use, called in ((torch.jit.script, "torch.jit.script"),
                        (torch.fx.symbolic_trace, "torch.fx.symbolic_trace")):  # fmt: skip
        said = refusal(lambda use=use: use(whole))
        assert said.startswith(f"0: blocks.0.mlp.up: {called} has no recipe's products: ")
        assert "restore(model)" in said


@has_compile
def test_batches_of_backward_passes_are_refused_by_operations():
    x = torch.randn(4, 32, requires_grad=True)
    grads = torch.randn(3, 4, 32)
    y = layer("torch")(x)
    said = refusal(lambda: torch.autograd.grad(y, x, grads, is_grads_batched=True))
    assert said.endswith("vmap would scale and draw row by row: one backward pass after the other")


def test_names_and_blocks_that_mean_nothing_are_refused():
    def said(**words) -> str:
        pair = nn.ModuleDict({"blocks": nn.ModuleList(nn.Linear(64, 64) for _ in range(3))})
        return refusal(lambda: ngt.convert(pair, "nvfp4", **words))

    assert said(names={"blokcs.{n}": "blocks.{n}.mlp.up"}).startswith(
        'names: "blokcs.{n}" means no linear layer: a glob'
    )
    assert '"blocks.{m}.mlp.up": {n} in both' in said(names={"blocks.{n}": "blocks.{m}.mlp.up"})
    assert "{n} in both" in said(names={"blocks.*": "blocks.{n}.mlp.up"})
    assert said(blocks=2) == "blocks: 2, and a layer is in blocks.2: 3 or more"
    assert refusal(lambda: ngt.Linear(8, 8)).startswith("Linear: is what convert makes of a layer")
