"""narrowgauge.torch.optimizer has the bits of `narrowgauge update`, in torch's habits."""

from __future__ import annotations

import copy
import io

import numpy as np
import pytest
from conftest import array, tensors, write_tensors

import narrowgauge as ng

torch = pytest.importorskip("torch")
import narrowgauge.torch as ngt  # noqa: E402: needs torch
from torch import nn  # noqa: E402

RECIPES = ["fp32", "bf16", "sr-bf16", "naive-bf16", "kahan-bf16", "residual-bf16", "feedback-bf16",
           "precision-aware-bf16", "sr-fp8", "residual-fp8", "precision-aware-fp8", "feedback-fp8",
           "adamw-fp8-states", "fp8-lm", "muon", "adam-mini", "nvfp4"]  # fmt: skip
NUMBERS = {"lr": 0.01, "weight_decay": 0.1, "least_narrow": 0, "decay_vectors": True}
STEPS = 3


class Block(nn.Module):
    """Layers and a norm, which GPT-2's table names."""

    def __init__(self) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(32)
        self.attn = nn.ModuleDict({"c_attn": nn.Linear(32, 96)})
        self.mlp = nn.ModuleDict({"c_fc": nn.Linear(96, 160)})

    def forward(self, x):
        return self.mlp["c_fc"](torch.tanh(self.attn["c_attn"](self.ln_1(x))))


class Model(nn.Module):
    """A block between an embedding and a head."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.wte = nn.Embedding(24, 32)
        self.h = nn.ModuleList([Block()])
        self.lm_head = nn.Linear(160, 24, bias=False)

    def forward(self, tokens):
        return self.lm_head(self.h[0](self.wte(tokens)))


def random(shape, seed: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def matrix(tensor: torch.Tensor) -> np.ndarray:
    values = array(tensor)
    return values if values.ndim == 2 else values.reshape(1, -1)


def made_by_program(program, folder, recipe, layer, weight, grads, *flags, lr=NUMBERS["lr"]):
    """What `narrowgauge update` makes of the same tensors."""
    grads = np.stack([matrix(grad) for grad in grads])
    write_tensors(folder / "in", {"weight": matrix(weight), "grad": grads})
    shown = ",".join(str(step + 1) for step in range(len(grads)))
    program("update", folder / "in", folder / "out", "--recipe", recipe, "--layer", layer,
            "--show", shown, "--lr", lr, *flags)  # fmt: skip
    return tensors(folder / "out")


def set_gradients(model: nn.Module, step: int) -> dict[str, torch.Tensor]:
    """The same to a parameter of any type."""
    found = {}
    for number, (name, parameter) in enumerate(model.named_parameters()):
        parameter.grad = random(parameter.shape, 100 * step + number).to(parameter.dtype)
        found[name] = parameter.grad.clone()
    return found


def values_of(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def same(a, b) -> None:
    for x, y in zip(a, b, strict=True):
        assert torch.equal(x, y)


def require_states(made, step, states) -> None:
    """Every byte is the program's."""
    for key, found in states.items():
        what, _, element = key.rpartition(".")
        if what == "carry":
            what = "residual" if element.startswith("int") else "compensation"
        name = f"step{step}.{what}"
        expected = made[f"{name}.codes" if f"{name}.codes" in made else name]
        assert bytes(found.tolist()) == expected.tobytes(), key


@pytest.mark.parametrize("is_converted", [True, False])
@pytest.mark.parametrize("recipe", RECIPES)
def test_parameters_have_the_bits_of_the_program(recipe, is_converted, program, tmp_path):
    model = Model()
    if is_converted:
        ngt.convert(model, recipe)
    first = values_of(model)
    optimizer = ngt.optimizer(model, recipe, heads=2, **NUMBERS)
    seen, grads = [], []
    for step in range(STEPS):
        grads.append(set_gradients(model, step))
        optimizer.step()
        seen.append((values_of(model), optimizer.state_dict()))
    names = list(first)
    places = {p.shown: p for p in optimizer._places.values()}
    layers = {"wte.weight": "embed", "lm_head.weight": "head", "h.0.ln_1.weight": "blocks.0.norm1",
              "h.0.attn.c_attn.weight": "blocks.0.attn.qkv",
              "h.0.attn.c_attn.bias": "blocks.0.attn.qkv.bias",
              "h.0.mlp.c_fc.weight": "blocks.0.mlp.up"}  # fmt: skip
    for name, layer in layers.items():
        flags = ["--heads", 2, "--tensor-id", places[name].id, "--blocks", 1]
        made = made_by_program(
            program, tmp_path, recipe, layer, first[name], [g[name] for g in grads], *flags
        )
        for step, (values, state) in enumerate(seen):
            np.testing.assert_array_equal(made[f"step{step + 1}.weight"], matrix(values[name]))
            require_states(made, step + 1, state["state"][names.index(name)])
    is_bf16 = is_converted and recipe.endswith(("-bf16", "-fp8", "-lm"))
    weight = model.h[0].mlp["c_fc"].weight
    assert weight.dtype == (torch.bfloat16 if is_bf16 else torch.float32)
    assert model.wte.weight.dtype == torch.float32


def trained(model, optimizer, steps, schedule=None):
    losses = []
    for step in steps:
        tokens = torch.arange(12).reshape(2, 6) + step
        loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1).float(), tokens.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if schedule is not None:
            schedule.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("recipe", ["fp32", "sr-bf16", "kahan-bf16", "residual-bf16", "fp8-lm",
                                    "precision-aware-fp8", "adamw-fp8-states", "muon"])  # fmt: skip
@pytest.mark.parametrize("models_first", [True, False])
def test_loaded_states_go_on_with_the_same_bits(recipe, models_first):
    def begun(seed):
        model = Model()
        with torch.no_grad():
            model.lm_head.weight.add_(seed)
        ngt.convert(model, recipe)
        return model, ngt.optimizer(model, recipe, 0.01)

    model, optimizer = begun(0)
    trained(model, optimizer, range(3))
    file = io.BytesIO()
    torch.save([model.state_dict(), optimizer.state_dict()], file)
    losses = trained(model, optimizer, range(3, 6))
    file.seek(0)
    its_model, its_state = torch.load(file)
    again, other = begun(1)
    if models_first:
        again.load_state_dict(its_model)
        other.load_state_dict(its_state)
    else:
        other.load_state_dict(its_state)
        again.load_state_dict(its_model)
    assert ngt.describe(again)["lm_head"]["step"] == 3
    assert trained(again, other, range(3, 6)) == losses
    same(model.state_dict().values(), again.state_dict().values())
    for a, b in zip(*(o.state_dict()["state"].values() for o in (optimizer, other)), strict=True):
        assert a.keys() == b.keys()
        same(a.values(), b.values())


@pytest.mark.parametrize("recipe", ["mxfp4-all", "sr-bf16", "fp8-lm", "muon"])
def test_losses_fall(recipe):
    model = Model()
    ngt.convert(model, recipe)
    losses = trained(model, ngt.optimizer(model, recipe, 0.01), [0] * 20)
    assert losses[-1] < 0.6 * losses[0]


def test_fp32_is_adamw_of_torch():
    a, b = Model(), Model()
    ours = ngt.optimizer(a, "fp32", 0.01, decay_vectors=True)
    torchs = torch.optim.AdamW(b.parameters(), 0.01, betas=(0.9, 0.95), weight_decay=0.1)
    for step in range(5):
        for model, optimizer in ((a, ours), (b, torchs)):
            set_gradients(model, step)
            optimizer.step()
    for x, y in zip(a.parameters(), b.parameters(), strict=True):
        assert torch.allclose(x, y, rtol=0, atol=1e-6)  # of five steps of about 0.01


def test_groups_and_schedules_count_at_each_step():
    def run(split):
        model = Model()
        ngt.convert(model, "sr-bf16")
        matrices = [p for p in model.parameters() if p.dim() > 1]
        vectors = [p for p in model.parameters() if p.dim() < 2]
        groups = [{"params": matrices}, {"params": vectors, "lr": 0.1}] if split else model
        optimizer = ngt.optimizer(groups, "sr-bf16", 0.01, model=model)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))
        trained(model, optimizer, range(3), schedule)
        assert optimizer.param_groups[0]["lr"] == pytest.approx(0.01 / 4)
        return model, optimizer

    plain, split = run(False)[0], run(True)[0]
    assert not torch.equal(plain.h[0].ln_1.bias, split.h[0].ln_1.bias)

    model = nn.Linear(8, 8)
    optimizer = ngt.optimizer(model, "fp32", 0.1)
    for lr, betas, decay in ((0.1, (0.9, 0.95), 0.1), (0.05, (0.5, 0.9), 0.0)):
        optimizer.param_groups[0].update(lr=lr, betas=betas, weight_decay=decay)
        before = model.weight.detach().clone()
        model.weight.grad = torch.ones(8, 8)
        optimizer.step()
    # m = 0.5·0.1 + 0.5, v = 0.9·0.05 + 0.1, corrected by betas of the second step
    m, v = 0.55 / 0.75, 0.145 / 0.19
    assert torch.allclose(model.weight, before - 0.05 * m / v**0.5, atol=1e-6)


def test_a_schedule_of_rates_is_that_of_the_program(program, tmp_path):
    parameter = nn.Parameter(random((16, 32), 1))
    first = parameter.detach().clone()
    optimizer = ngt.optimizer([parameter], "fp32", 0.01)
    grads = [random((16, 32), 10 + step) for step in range(2)]
    torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5)
    for grad in grads:
        parameter.grad = grad
        optimizer.step()
    made = made_by_program(program, tmp_path, "fp32", "blocks.0.mlp.up", first, grads, lr=0.005)
    np.testing.assert_array_equal(made["step2.weight"], matrix(parameter))


def test_frozen_parameters_and_those_without_gradient_stay():
    model = Model()
    ngt.convert(model, "sr-bf16")
    model.lm_head.weight.requires_grad_(False)
    optimizer = ngt.optimizer(model, "sr-bf16", 0.01)
    assert model.lm_head.weight.dtype == torch.float32
    before = values_of(model)
    set_gradients(model, 0)
    model.lm_head.weight.grad = model.wte.weight.grad = None
    optimizer.step()
    for name, value in values_of(model).items():
        assert torch.equal(value, before[name]) == (name in ("lm_head.weight", "wte.weight")), name
    state = optimizer.state_dict()
    other = ngt.optimizer(copy.deepcopy(model), "sr-bf16", 0.01)
    other.load_state_dict(state)
    assert other.state_dict()["state"].keys() == state["state"].keys()


def test_a_closure_is_called_with_gradients():
    layer = nn.Linear(4, 4)
    optimizer = ngt.optimizer(layer, "fp32", 0.1)

    def closure():
        optimizer.zero_grad()
        loss = layer(torch.ones(1, 4)).square().sum()
        loss.backward()
        return loss

    losses = [optimizer.step(closure).item() for _ in range(5)]
    assert losses[-1] < losses[0]


def test_values_from_outside_are_taken_and_moments_stay():
    parameter = nn.Parameter(random((8, 32), 1))
    optimizer = ngt.optimizer([parameter], "kahan-bf16", 0.01, weight_decay=0.0)
    parameter.grad = torch.ones(8, 32)
    optimizer.step()
    moment = optimizer.state_dict()["state"][0]["moment1.float32"].clone()
    for write in (lambda: parameter.data.fill_(2.0), lambda: nn.init.constant_(parameter, 2.0)):
        write()
        assert torch.equal(optimizer.state_dict()["state"][0]["moment1.float32"], moment)
        parameter.grad = torch.zeros(8, 32)
        parameter.grad[0] = 1
        optimizer.step()
        assert torch.all((parameter - 2.0).abs() < 0.02) and torch.any(parameter != 2.0)
        moment = optimizer.state_dict()["state"][0]["moment1.float32"].clone()


def test_a_converted_model_draws_by_its_step():
    model = Model()
    ngt.convert(model, "sr-bf16", step=5, seed=9)
    optimizer = ngt.optimizer(model, "sr-bf16", 0.01)
    trained(model, optimizer, range(2))
    assert ngt.describe(model)["lm_head"]["step"] == 7
    assert optimizer.state_dict()["param_groups"][0]["narrowgauge_step"] == 7


def test_what_goes_beyond_its_format_is_warned_of():
    parameter = nn.Parameter(torch.ones(8, 32))
    optimizer = ngt.optimizer([parameter], "fp32")
    parameter.grad = torch.full((8, 32), 3e20)
    with pytest.warns(UserWarning, match="^parameter 0: moment2 is beyond the range"):
        optimizer.step()


@pytest.mark.parametrize("recipe", ["sr-bf16", "muon", "precision-aware-fp8", "adamw-fp8-states"])
def test_threads_change_no_bit_of_an_update(recipe):
    states = []
    for threads in (1, 3):
        torch.set_num_threads(threads)
        parameter = nn.Parameter(random((300, 200), 1))
        optimizer = ngt.optimizer([parameter], recipe)
        for step in range(2):
            parameter.grad = random((300, 200), 2 + step)
            optimizer.step()
        states.append(optimizer.state_dict()["state"][0])
    torch.set_num_threads(1)
    same(states[0].values(), states[1].values())


def test_what_conv1d_has_turned_is_updated_as_it_is(program, tmp_path):
    pytest.importorskip("transformers")
    from transformers.pytorch_utils import Conv1D

    layer = Conv1D(48, 32)
    ngt.convert(layer, "muon", names=lambda _: "blocks.0.mlp.up")
    first = layer.weight.detach().clone()
    optimizer = ngt.optimizer(layer, "muon", NUMBERS["lr"], least_narrow=0)
    layer.weight.grad = random((32, 48), 3)
    optimizer.step()
    made = made_by_program(
        program, tmp_path, "muon", "blocks.0.mlp.up", first.t(), [layer.weight.grad.t()]
    )
    np.testing.assert_array_equal(made["step1.weight"], matrix(layer.weight.t()))


def test_refusals_name_parameter_or_key():
    model = Model()
    ngt.convert(model, "muon")
    with pytest.raises(ng.Error, match=r"^h\.0\.attn\.c_attn\.weight: .*heads.*96 rows"):
        ngt.optimizer(model, "muon", heads=7)
    with pytest.raises(ng.Error, match="^kv_heads: -1"):
        ngt.optimizer(model, "muon", heads=2, kv_heads=-1)
    with pytest.raises(ng.Error, match="^lr: -1"):
        ngt.optimizer(model, "fp32", -1.0)
    with pytest.raises(ng.Error, match="^beta1: 1"):
        ngt.optimizer(model, "fp32", betas=(1.0, 0.9))
    with pytest.raises(ng.Error, match="beta1.*momentum_feedback"):
        ngt.optimizer(model, "feedback-bf16", betas=(0.0, 0.9))
    with pytest.raises(ng.Error, match='recipe: unknown "nvfp5"'):
        ngt.optimizer(model, "nvfp5")
    with pytest.raises(ng.Error, match=r"^wte\.weight: is torch\.bfloat16, which does not hold"):
        ngt.optimizer(Model().to(torch.bfloat16), "fp32")
    with pytest.raises(ng.Error, match=r"^parameter 1: is torch\.float64"):
        ngt.optimizer([nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2).double())], "fp32")
    optimizer = ngt.optimizer(Model(), "fp32")
    with pytest.raises(ng.Error, match=r"^wte\.weight: moment1\.float32: .* bytes"):
        state = optimizer.state_dict()
        state["state"][0]["moment1.float32"] = torch.zeros(4, dtype=torch.uint8)
        optimizer.load_state_dict(state)
    with pytest.raises(ng.Error, match=r"^wte\.weight: moment1"):
        narrow = ngt.optimizer(Model(), "fp8-lm", least_narrow=0)
        narrow.load_state_dict(ngt.optimizer(Model(), "fp32").state_dict())
    with pytest.raises(ng.Error, match="state_dict"):
        copy.deepcopy(optimizer)
    sparse = nn.Embedding(10, 4, sparse=True)
    optimizer = ngt.optimizer(sparse, "fp32")
    sparse(torch.tensor([1])).sum().backward()
    with pytest.raises(ng.Error, match="^weight: has a gradient that is torch.sparse_coo"):
        optimizer.step()
