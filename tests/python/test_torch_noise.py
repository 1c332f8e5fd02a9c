"""Noise on weights in torch has the bits of `narrowgauge noise`, and learns bit-widths."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from conftest import array, tensors, write_tensors

import narrowgauge as ng

torch = pytest.importorskip("torch")
import narrowgauge.torch as ngt  # noqa: E402: needs torch
from torch import nn  # noqa: E402

RECIPES = ["gaussws-all", "diffq", "nipq"]
ENGINES = pytest.mark.parametrize("engine", ["kernels", "torch"])
#: A cast of each kind, and weights without masters.
MORE = [
    {"inherit": "gaussws-all", "weight_noise.cast": "mxfp8_e4m3"},
    {"inherit": "nipq", "weight_noise.cast": "table"},
    {"inherit": "diffq", "weights.storage": "bf16", "weights.master": "none",
     "weights.update": "precision_aware", "weights.search": "printed"},
]  # fmt: skip
has_compile = pytest.mark.skipif(
    not hasattr(torch.library, "custom_op"), reason="needs torch 2.4 or later"
)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.blocks = nn.ModuleList(nn.Linear(64, 64) for _ in range(2))
        self.head = nn.Linear(64, 8)

    def forward(self, x):
        for block in self.blocks:
            x = x + block(x).tanh()
        return self.head(x)


def noisy(layer):
    from narrowgauge.torch import _noise

    return _noise.noisy(layer.ng_state, layer.weight, layer.ng_bits, layer.ng_clip, layer.training)


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("loss", [0.0, 0.25])
@ENGINES
def test_noise_has_the_bits_of_the_program(recipe, loss, engine, program, tmp_path):
    torch.manual_seed(1)
    layer = nn.Linear(70, 40)
    chosen = ng.Recipe(recipe, {"weight_noise.bitwidth_loss": loss})
    ngt.convert(layer, chosen, seed=3, step=5, names=lambda _: "blocks.0.mlp.up", engine=engine)
    with torch.no_grad():
        layer.ng_bits.mul_(1 + 0.1 * torch.rand(layer.ng_bits.shape))
    grad = torch.randn(40, 70)
    values = {"weight": layer.weight, "b_i": layer.ng_bits, "grad": grad}
    if layer.ng_clip is not None:
        with torch.no_grad():
            layer.ng_clip.mul_(0.5)
        values["alpha"] = layer.ng_clip
    write_tensors(tmp_path / "in", {name: array(value) for name, value in values.items()})
    program("noise", tmp_path / "in", tmp_path / "out", "--recipe", recipe, "--seed=3", "--step=5",
            f"--tensor-id={layer.ng_state.ids.weight}", "--layer=blocks.0.mlp.up",
            f"--set=recipe.weight_noise.bitwidth_loss={loss}")  # fmt: skip
    made = tensors(tmp_path / "out")
    weight = noisy(layer)
    np.testing.assert_array_equal(made["weight_hat"], array(weight))
    weight.backward(grad)
    np.testing.assert_array_equal(made["grad.weight"], array(layer.weight.grad))
    if layer.ng_clip is not None:
        np.testing.assert_array_equal(made["grad.alpha"], array(layer.ng_clip.grad))
    ngt.penalty(layer).backward()
    if loss == 0:
        np.testing.assert_array_equal(made["grad.b_i"], array(layer.ng_bits.grad))
    elif recipe != "nipq":  # whose b has noise there
        learned = array(layer.ng_bits.grad)
        np.testing.assert_allclose(made["grad.b_i"], learned, rtol=1e-5, atol=1e-6)


def train(recipe, mode="", engine="kernels", own_optimizer=False):
    torch.manual_seed(3)
    model = Model()
    ngt.convert(model, recipe, engine=engine)
    if own_optimizer:
        optimizer = ngt.optimizer(model, recipe, lr=1e-2, weight_decay=0)
    else:
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0)
        ngt.attach(model, optimizer)
    call = torch.compile(model, backend=mode, fullgraph=True) if mode == "aot_eager" else model
    if mode == "repeated":
        repeat = torch.utils.checkpoint.checkpoint
        call = lambda x: repeat(model, x, use_reentrant=False)  # noqa: E731
    x, y = torch.randn(2, 32, 64), torch.randint(8, (2, 32))
    losses = []
    for _ in range(8):
        for micro in range(2):
            loss = nn.functional.cross_entropy(call(x[micro]), y[micro]) + 0.1 * ngt.penalty(model)
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return model, losses


@pytest.mark.parametrize("recipe", RECIPES)
@ENGINES
def test_models_learn_weights_and_bit_widths(recipe, engine):
    first = {name: p.clone() for name, p in Model().named_parameters()}
    model, losses = train(recipe, engine=engine)
    assert losses[-1] < 0.7 * losses[0]
    names = [name for name, _ in model.named_parameters() if name not in first]
    clips = ["ng_clip"] if recipe == "nipq" else []
    assert names == [f"blocks.{n}.{what}" for n in range(2) for what in ["ng_bits", *clips]]
    again = Model()
    ngt.convert(again, recipe, engine=engine)
    for name in names:
        assert (model.get_parameter(name) != again.get_parameter(name)).any(), name
    again.load_state_dict(model.state_dict())
    x = torch.randn(3, 64)
    model.eval(), again.eval()
    assert torch.equal(model(x), model(x)) and torch.equal(model(x), again(x))
    plain = ngt.restore(copy.deepcopy(model))
    assert list(plain.state_dict()) == list(Model().state_dict())


@pytest.mark.parametrize("mode", ["repeated", pytest.param("aot_eager", marks=has_compile)])
@pytest.mark.parametrize("recipe", RECIPES)
@ENGINES
def test_checkpointing_and_compiling_change_no_bit(recipe, engine, mode):
    one, losses = train(recipe, engine=engine)
    other, same = train(recipe, mode, engine=engine)
    assert losses == same
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


@has_compile
@pytest.mark.parametrize("recipe", ["gaussws-all", "nipq"])
@ENGINES
def test_what_bits_cost_compiles(recipe, engine):
    model = Model()
    ngt.convert(model, ng.Recipe(recipe, {"weight_noise.bitwidth_loss": 0.5}), engine=engine)
    compiled = torch.compile(lambda: ngt.penalty(model), backend="aot_eager", fullgraph=True)
    assert compiled().item() == ngt.penalty(model).item()
    assert ngt.penalty(model).item() == pytest.approx(2 * 0.5 * (6 - 4), rel=1e-6)


@pytest.mark.parametrize("recipe", [*RECIPES, *MORE], ids=str)
def test_both_engines_learn_the_same(recipe):
    """Products are summed in orders of their own; what noise on the weights is made of is not."""
    if not hasattr(torch, "get_default_device"):
        pytest.skip("needs torch 2")
    (a, kernels), (b, made) = (
        train(recipe, engine=engine, own_optimizer=True) for engine in ("kernels", "torch")
    )
    np.testing.assert_allclose(made, kernels, rtol=2e-3)
    assert a.state_dict().keys() == b.state_dict().keys()
    assert ngt.describe(a) == ngt.describe(b)
    for one, other in zip(a.blocks, b.blocks):
        torch.testing.assert_close(one.ng_bits, other.ng_bits, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("recipe", RECIPES)
@ENGINES
def test_noise_is_of_a_step_and_not_of_evaluation(recipe, engine):
    model = Model()
    ngt.convert(model, recipe, engine=engine)
    layer = model.blocks[0]
    first = noisy(layer)
    assert torch.equal(first, noisy(layer)) and not torch.equal(first, layer.weight)
    ngt.step(model)
    assert not torch.equal(first, noisy(layer))
    model.eval()
    if recipe == "nipq":
        assert len(noisy(layer).unique()) < 80 < len(layer.weight.unique())
        x = torch.randn(3, 64)
        before = model(x)
        layer.weight.data[1, 2] += 0.5
        layer.weight.data = layer.weight.data.clone()
        assert not torch.equal(before, model(x))
    else:
        assert noisy(layer) is layer.weight
    assert model.head.ng_bits is None


@ENGINES
def test_the_weight_of_a_conv1d_is_turned(engine):
    pytorch_utils = pytest.importorskip("transformers.pytorch_utils")
    torch.manual_seed(0)
    turned, plain = pytorch_utils.Conv1D(48, 64), nn.Linear(64, 48)
    with torch.no_grad():
        plain.weight.copy_(turned.weight.t())
        plain.bias.copy_(turned.bias)
    x, seen = torch.randn(5, 64), []
    for layer in (turned, plain):
        ngt.convert(layer, "gaussws-all", names=lambda _: "blocks.0.mlp.up", engine=engine)
        y = layer(x)
        y.square().sum().backward()
        seen.append((y, layer.weight.grad, layer.ng_bits.grad))
    assert torch.equal(seen[0][0], seen[1][0]) and torch.equal(seen[0][2], seen[1][2])
    assert torch.equal(seen[0][1], seen[1][1].t())


@ENGINES
def test_training_goes_on_with_the_same_bits(engine):
    """Into another phase of the recipe, of a model that was pickled, by states of both."""
    later = {"start": 0.5, "linear": {"dgrad": {"grad": "mxfp4"}}}
    recipe = {"inherit": "gaussws-all", "phase": [later]}

    def begun():
        torch.manual_seed(0)
        model = Model()
        ngt.convert(model, recipe, steps=4, engine=engine)
        return model, ngt.optimizer(model, recipe, lr=1e-2)

    def steps(model, optimizer, count):
        x = torch.randn(8, 64, generator=torch.Generator().manual_seed(1))
        for _ in range(count):
            (model(x).square().mean() + ngt.penalty(model)).backward()
            optimizer.step()
            optimizer.zero_grad()
        return [p.detach().clone() for p in model.parameters()]

    whole, first, (model, optimizer) = begun(), begun(), begun()
    wanted, _ = steps(*whole, 4), steps(*first, 2)
    model.load_state_dict(pickle.loads(pickle.dumps(first[0])).state_dict())
    optimizer.load_state_dict(first[1].state_dict())
    made = steps(model, optimizer, 2)
    assert all(torch.equal(a, b) for a, b in zip(wanted, made, strict=True))
    assert model.blocks[0].ng_state.engine.phase == 1
