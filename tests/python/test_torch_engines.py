"""Optimizers in torch operations have the bits of the kernels, and ask no device for a value."""

from __future__ import annotations

import pytest

import narrowgauge as ng

torch = pytest.importorskip("torch")
import narrowgauge.torch as ngt  # noqa: E402: needs torch
from narrowgauge import _core  # noqa: E402
from narrowgauge.torch._held_anywhere import require_device  # noqa: E402
from test_torch_optimizers import Model, set_gradients, trained, values_of  # noqa: E402
from torch import nn  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402

NUMBERS = {"lr": 0.01, "least_narrow": 0, "decay_vectors": True}
#: A matrix, one whose rows and columns fill no block and no byte, a vector.
SHAPES = [(32, 96), (7, 33), (96,)]


@pytest.fixture
def device(request):
    """Where torch operations run; the kernels always do on the CPU."""
    return request.config.getoption("--device")


def parameters(device="cpu") -> list[nn.Parameter]:
    generator = torch.Generator().manual_seed(0)
    return [
        nn.Parameter((torch.randn(shape, generator=generator) * 0.05).to(device))
        for shape in SHAPES
    ]


def stepped(optimizer, params, steps) -> None:
    for step in steps:
        generator = torch.Generator().manual_seed(step + 1)
        for parameter in params:
            grad = torch.randn(parameter.shape, generator=generator) * 10.0**-step
            parameter.grad = grad.to(parameter)
        optimizer.step()


def states_of(optimizer) -> dict:
    """Every byte that persists."""
    states = optimizer.state_dict()["state"]
    return {(number, key): states[number][key].cpu() for number in states for key in states[number]}


def require_same(a: dict, b: dict) -> None:
    assert list(a) == list(b)
    for key in a:
        assert torch.equal(a[key], b[key]), key


def updated(recipe, engine, device="cpu", steps=3) -> list[dict]:
    params = parameters("cpu" if engine == "kernels" else device)
    optimizer = ngt.optimizer(params, recipe, engine=engine, **NUMBERS)
    seen = []
    for step in range(steps):
        stepped(optimizer, params, [step])
        values = {number: p.detach().cpu().clone() for number, p in enumerate(params)}
        seen.append({**states_of(optimizer), **values})
    return seen


def has_muon(recipe: str) -> bool:
    return 'kind = "muon"' in _core.load_recipe(recipe).resolved


@pytest.mark.parametrize("recipe", [r for r in _core.recipe_names() if not has_muon(r)])
def test_named_recipes_have_the_bits_of_the_kernels(recipe, device):
    for a, b in zip(updated(recipe, "kernels"), updated(recipe, "torch", device), strict=True):
        require_same(a, b)


def stochastic(cast) -> dict:
    return {**(cast if isinstance(cast, dict) else {"format": cast}), "rounding": "stochastic"}


CASTS = ["fp16", {"format": "fp8_e4m3", "scale": "pow2"},
         {"format": "fp8_e5m2", "scale": "fp32", "block": "row"}, "mxfp4", "nvfp4", "mxfp6_e3m2",
         {"format": "int8", "scale": "fp32", "block": [1, 16]},
         {"format": "int4", "scale": "pow2", "block": "tensor"}, "mxint8"]  # fmt: skip
CODED = [{"format": "int8", "block": [1, 16], "map": "dynamic"},
         {"format": "fp8_e4m3", "block": [1, 16], "expand": True},
         {"format": "bf16", "parts": 2}]  # fmt: skip
OTHERS = [
    *({"optimizer": {"moment1": stochastic(c), "moment2": c}} for c in CASTS),
    *({"optimizer": {"moment1": c, "moment2": c}} for c in CODED),
    *({"weights": {"storage": c, "master": "fp16"}} for c in CASTS),
    *({"weights": {"storage": c, "update": u}, "optimizer": {"kind": k, "moment1": stochastic(c)}}
      for c in CASTS for u, k in [("stochastic", "sgd"), ("kahan", "adamw"),
                                  (["nearest", "momentum_feedback"], "adam_mini")]),
    *({"weights": {"storage": c, "update": "residual", "residual_bits": bits}}
      for c in CASTS for bits in (8, 4)),
    *({"weights": {"storage": c, "update": "precision_aware", "search": "printed"}}
      for c in CASTS[:2]),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(OTHERS)))
def test_what_no_recipe_names_has_them_too(number, device):
    recipe = OTHERS[number]
    for a, b in zip(updated(recipe, "kernels"), updated(recipe, "torch", device), strict=True):
        require_same(a, b)


@pytest.mark.parametrize("moment", ["fp32", stochastic({"format": "fp8_e4m3", "scale": "pow2"})])
def test_muon_has_the_momentum_of_the_kernels_and_their_weights_but_for_sums(moment, device):
    recipe = {"optimizer": {"kind": "muon", "moment1": moment}}
    for step, (a, b) in enumerate(
        zip(updated(recipe, "kernels"), updated(recipe, "torch", device), strict=True)
    ):
        assert list(a) == list(b)
        for key, values in a.items():
            if key in (0, 1):
                # Three sums of at most 96 products in each of five steps, of magnitudes below 2,
                # whose errors grow 3.4445 times in each step that follows, 198 times in all:
                # X is off by at most 198 · 6 · 96 · 2^-24 < 2^-7.
                most = NUMBERS["lr"] * 0.2 * 96**0.5 * 2**-7
                assert (values - b[key]).abs().max() <= (step + 1) * most
            elif key not in ((0, "weight.float32"), (1, "weight.float32")):
                assert torch.equal(values, b[key]), key


@pytest.mark.parametrize("recipe", ["fp32", "sr-bf16", "kahan-bf16", "residual-bf16", "sr-fp8",
                                    "feedback-bf16", "adam-mini", "fp8-lm"])  # fmt: skip
def test_models_have_the_bits_of_the_kernels(recipe):
    """Converted ones, whose layers become BF16, and what lies outside of blocks."""
    seen = []
    for engine in ("kernels", "torch"):
        model = Model()
        ngt.convert(model, recipe, seed=5)
        optimizer = ngt.optimizer(model, recipe, heads=2, engine=engine, **NUMBERS)
        for step in range(2):
            set_gradients(model, step)
            optimizer.step()
        seen.append((values_of(model), states_of(optimizer)))
    require_same(seen[0][1], seen[1][1])
    for a, b in zip(seen[0][0].values(), seen[1][0].values(), strict=True):
        assert a.dtype == b.dtype and torch.equal(a, b)


def test_what_conv1d_has_turned_has_them_too():
    pytest.importorskip("transformers")
    from transformers.pytorch_utils import Conv1D

    seen = []
    for engine in ("kernels", "torch"):
        torch.manual_seed(0)
        layer = Conv1D(48, 32)
        ngt.convert(layer, "residual-fp8", names=lambda _: "blocks.0.mlp.up")
        optimizer = ngt.optimizer(layer, "residual-fp8", engine=engine, **NUMBERS)
        stepped(optimizer, [layer.weight], range(2))
        seen.append({**states_of(optimizer), "values": layer.weight.detach().clone()})
    require_same(*seen)


# From one to the other ----------------------------------------------------------------------------


@pytest.mark.parametrize("recipe", ["fp32", "bf16-sr", "residual-fp8", "fp8-lm", "adam-mini",
                                    "precision-aware-fp8", "adamw-fp8-states"])  # fmt: skip
@pytest.mark.parametrize("first", ["kernels", "torch"])
def test_a_run_goes_on_in_the_other_engine(recipe, first, device):
    def begun(engine):
        params = parameters("cpu" if engine == "kernels" else device)
        return params, ngt.optimizer(params, recipe, engine=engine, **NUMBERS)

    params, optimizer = begun(first)
    stepped(optimizer, params, range(2))
    its_params, other = begun("torch" if first == "kernels" else "kernels")
    other.load_state_dict(optimizer.state_dict())
    with torch.no_grad():
        for mine, given in zip(its_params, params, strict=True):
            mine.copy_(given)
    stepped(optimizer, params, range(2, 4))
    stepped(other, its_params, range(2, 4))
    require_same(states_of(optimizer), states_of(other))


@pytest.mark.parametrize("recipe", ["kahan-bf16", "fp8-lm", "bf16-sr"])
def test_checkpoints_of_both_engines_are_the_same_files(recipe, tmp_path):
    transformers = pytest.importorskip("transformers")

    def begun(engine):
        torch.manual_seed(0)
        config = transformers.LlamaConfig(
            vocab_size=64, hidden_size=64, intermediate_size=128, num_hidden_layers=1,
            num_attention_heads=2, num_key_value_heads=2, max_position_embeddings=32,
            tie_word_embeddings=False,
        )  # fmt: skip
        model = transformers.LlamaForCausalLM(config)
        ngt.convert(model, recipe)
        return model, ngt.optimizer(model, recipe, 0.01, engine=engine, least_narrow=0)

    files = {}
    for engine in ("kernels", "torch"):
        model, optimizer = begun(engine)
        set_gradients(model, 0)
        optimizer.step()
        ngt.save_checkpoint(tmp_path / engine, model, optimizer)
        files[engine] = {
            path.name: path.read_bytes() for path in (tmp_path / engine).rglob("*.safetensors")
        }
    assert files["kernels"] and files["kernels"] == files["torch"]
    seen = []
    for engine, other in (("torch", "kernels"), ("kernels", "torch")):
        model, optimizer = begun(engine)
        assert ngt.load_checkpoint(tmp_path / other, model, optimizer) == 1
        set_gradients(model, 1)
        optimizer.step()
        seen.append({**states_of(optimizer), **values_of(model)})
    require_same(*seen)


# Devices ------------------------------------------------------------------------------------------


has_fakes = pytest.mark.skipif(
    not hasattr(torch.library, "custom_op") or torch.version.cuda is None,
    reason="needs torch 2.4 or later that is built for cards",
)


def on_cuda_that_is_not_there(recipe, steps=2):
    """torch computes shapes and devices alone, and has no values that could be asked for."""
    with FakeTensorMode():
        params = [nn.Parameter(torch.empty(shape, device="cuda")) for shape in SHAPES]
        optimizer = ngt.optimizer(params, recipe, **NUMBERS)
        for _ in range(steps):
            for parameter in params:
                parameter.grad = torch.empty_like(parameter)
            optimizer.step()
        assert all(parameter.device.type == "cuda" for parameter in params)


@has_fakes
@pytest.mark.parametrize(
    "recipe", [r for r in _core.recipe_names() if not r.startswith("precision-aware")]
)
def test_steps_wait_for_no_value(recipe):
    on_cuda_that_is_not_there(recipe)


@has_fakes
def test_a_search_for_a_step_waits_for_norms():
    with pytest.raises(RuntimeError, match="_local_scalar_dense"):
        on_cuda_that_is_not_there("precision-aware-bf16")


def test_auto_is_the_kernels_on_the_cpu(monkeypatch):
    monkeypatch.setattr(_core, "UpdateForm", None)
    params = parameters()
    stepped(ngt.optimizer(params, "sr-bf16"), params, range(1))


@has_fakes
def test_kernels_are_those_of_the_cpu():
    with FakeTensorMode():
        there = [nn.Parameter(torch.empty(4, 4, device="cuda"))]
        with pytest.raises(ng.Error, match='^parameter 0: is on cuda:0: the CPU, or engine="auto'):
            ngt.optimizer(there, "fp32", engine="kernels")


def test_what_a_device_lacks_is_refused_at_once():
    with pytest.raises(ng.Error, match="^parameter 0: is on meta, where nothing is computed: "):
        ngt.optimizer([nn.Parameter(torch.empty(4, 4, device="meta"))], "fp32")
    with pytest.raises(ng.Error, match='^engine: "gpu": '):
        ngt.optimizer(parameters(), "fp32", engine="gpu")
    for recipe in ("residual-bf16", "adam-mini", "precision-aware-fp8", "coat-adamw"):
        held = ngt.optimizer(parameters(), recipe, engine="torch", **NUMBERS).held()[0]
        with pytest.raises(ng.Error, match="^parameter 0: is on mps, which has no FP64 for "):
            require_device(held, torch.device("mps"), held._form)
    held = ngt.optimizer(parameters(), "kahan-bf16", engine="torch").held()[0]
    require_device(held, torch.device("mps"), held._form)


def test_gradients_between_ranks_are_those_of_the_cpu():
    class There(nn.parallel.DistributedDataParallel):
        def __init__(self, module):
            nn.Module.__init__(self)
            self.module = module

    remedy = "a model on the CPU, or on CUDA devices"
    with pytest.raises(ng.Error, match=f"^weight: is on meta: {remedy}$"):
        ngt.gradient_hook(There(nn.Linear(4, 4, device="meta")), "fp8-lm")


def test_states_stay_where_they_are():
    params = parameters()
    optimizer = ngt.optimizer(params, "kahan-bf16", engine="torch")
    optimizer.held()[1]._device = torch.device("cuda", 0)
    with pytest.raises(ng.Error, match="^parameter 1: is on cpu, but its states are on cuda:0: "):
        stepped(optimizer, params, [0])


# As the kernels do --------------------------------------------------------------------------------


@pytest.mark.parametrize("recipe", ["fp32", "kahan-bf16", "fp8-lm"])
def test_values_from_outside_are_taken_and_moments_stay(recipe):
    seen = []
    for engine in ("kernels", "torch"):
        params = parameters()
        optimizer = ngt.optimizer(params, recipe, engine=engine, **NUMBERS)
        for step in range(3):
            stepped(optimizer, params, [step])
            params[step].data.mul_(-0.5)
        seen.append(states_of(optimizer))
    require_same(*seen)


def test_what_goes_beyond_its_format_is_warned_of_where_states_are_read():
    parameter = nn.Parameter(torch.ones(8, 32))
    optimizer = ngt.optimizer([parameter], "fp32", engine="torch")
    parameter.grad = torch.full((8, 32), 3e20)
    optimizer.step()
    with pytest.warns(UserWarning, match="^parameter 0: moment2 is beyond the range"):
        optimizer.state_dict()


def test_losses_fall():
    model = Model()
    ngt.convert(model, "sr-bf16", engine="torch")
    losses = trained(model, ngt.optimizer(model, "sr-bf16", 0.01, engine="torch"), [0] * 20)
    assert losses[-1] < 0.6 * losses[0]
