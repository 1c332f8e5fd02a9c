"""Layers of CUDA models and numbers of their tensors, by an emulated card in the place of the CPU:
a card's memory and torch's streams no machine without one shows."""

from __future__ import annotations

import copy

import narrowgauge as ng
import numpy as np
import pytest
from conftest import array

torch = pytest.importorskip("torch")
import narrowgauge.torch as ngt  # noqa: E402: needs torch
from narrowgauge import _core, _devices  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

CARD = "cuda-emulated"
pytestmark = pytest.mark.skipif(
    CARD not in _core.backends(), reason="the package was built without the emulated card"
)
NAMES = {"0": "blocks.0.mlp.up", "2": "blocks.0.mlp.down"}


def make_model() -> nn.Sequential:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(40, 72), nn.GELU(), nn.Linear(72, 24))


def trained(recipe: str, steps: int = 2, checkpoints: bool = False) -> list[torch.Tensor]:
    """Losses, gradients of the last step, weights after it, and what evaluation gives."""
    model = make_model()
    ngt.convert(model, recipe, names=NAMES, seed=5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    ngt.attach(model, optimizer)
    seen = []
    generator = torch.Generator().manual_seed(2)
    for _ in range(steps):
        for _ in range(2):  # micro-batches
            x = torch.randn(3, 11, 40, generator=generator).requires_grad_()
            y = checkpoint(model, x, use_reentrant=False) if checkpoints else model(x)
            loss = (y * torch.randn(y.shape, generator=generator)).mean()
            loss.backward()
            seen += [loss.detach(), x.grad]
        seen += [p.grad.clone() for p in model.parameters()]
        optimizer.step()
        optimizer.zero_grad()
    model.eval()
    with torch.no_grad():
        seen.append(model(torch.randn(5, 40, generator=generator)))
    return [*seen, *(p.detach() for p in model.parameters())]


def require_same(a: list[torch.Tensor], b: list[torch.Tensor]) -> None:
    assert len(a) == len(b)
    for x, y in zip(a, b, strict=True):
        assert torch.equal(x, y)


@pytest.fixture
def by(monkeypatch):
    """by(backend)(function, ...): what it calls computes by another backend."""

    def by(backend):
        def call(function, *args, **words):
            with monkeypatch.context() as patch:
                patch.setitem(_devices.KERNELS, "cpu", backend)
                return function(*args, **words)

        return call

    return by


@pytest.fixture
def on_card(by):
    return by(CARD)


@pytest.mark.parametrize(
    "recipe",
    ["bf16", "mxfp4-sr-rht", "nvfp4-all", "fp8-delayed", "fp8-block", "int8", "quartet2", "averis",
     "nvfp4-fwd-bf16-bwd", "tetrajet"],
)
def test_layers_have_the_bits_of_the_definition(recipe, by):
    on_card = by(CARD)(trained, recipe)
    require_same(on_card, by("ref")(trained, recipe))
    # The gradient of a bias is summed otherwise on CPUs, which the second step's losses show.
    torch.testing.assert_close(on_card[:4], trained(recipe)[:4], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("recipe", ["gaussws-all", "nipq"])
def test_noise_on_weights_has_the_bits_of_the_definition(recipe, by):
    require_same(by(CARD)(trained, recipe), by("ref")(trained, recipe))


def test_codes_of_the_input_are_kept_until_the_backward_pass(on_card):
    """As the operand lies on the card: some five bits a value."""

    def kept():
        model = make_model()
        ngt.convert(model, "nvfp4-fwd-bf16-bwd", names=NAMES, seed=5)
        model(torch.randn(133, 40).requires_grad_())
        return model[0].ng_state.saved_bytes

    assert 133 * 40 // 2 < on_card(kept) < 133 * 40


def test_checkpointing_repeats_its_draws(on_card):
    plain = on_card(trained, "mxfp4-sr-rht")
    require_same(on_card(trained, "mxfp4-sr-rht", checkpoints=True), plain)


def test_a_model_goes_from_one_to_the_other(on_card):
    def half(model, x):
        model(x).sum().backward()
        return [p.grad.clone() for p in model.parameters() if p.dim() == 2]

    model = make_model()
    ngt.convert(model, "mxfp4-sr-rht", names=NAMES, seed=5)
    x = torch.randn(7, 40)
    other = copy.deepcopy(model)
    first = on_card(half, model, x)
    require_same(first, half(other, x))
    model.zero_grad()
    other.zero_grad()
    require_same(half(model, x), half(other, x))


# Optimizers --------------------------------------------------------------------------------------


def updated(recipe: str, steps: int = 3) -> list[torch.Tensor]:
    """Values and every byte of states after each step, in one of which values are another's."""
    generator = torch.Generator().manual_seed(4)
    shapes = [(32, 96), (7, 33), (96,)]
    params = [nn.Parameter(torch.randn(s, generator=generator) * 0.05) for s in shapes]
    optimizer = ngt.optimizer(params, recipe, lr=0.01, least_narrow=0, decay_vectors=True)
    seen = []
    for step in range(steps):
        for parameter in params:
            grad = torch.randn(parameter.shape, generator=generator) * 10.0**-step
            parameter.grad = grad.to(parameter)
        optimizer.step()
        state = optimizer.state_dict()
        if step == 1:
            with torch.no_grad():
                params[0].mul_(0.5)
            optimizer.load_state_dict(state)
        seen += [p.detach().clone() for p in params]
        for number in sorted(state["state"]):
            seen += [state["state"][number][name] for name in sorted(state["state"][number])]
    return seen


@pytest.mark.parametrize(
    "recipe",
    ["fp32", "mxfp4-all", "kahan-bf16", "residual-fp8", "sr-fp8", "feedback-fp8", "adam8bit",
     "fp8-lm", "precision-aware-fp8", "adam-mini", "coat-adamw"],
)  # fmt: skip
def test_updates_have_the_bits_of_the_cpu(recipe, on_card):
    require_same(on_card(updated, recipe), updated(recipe))


def test_moments_beyond_their_format_are_said_when_states_are_read(on_card):
    def overflowed():
        parameter = nn.Parameter(torch.ones(64, 64))
        optimizer = ngt.optimizer([parameter], "fp8-lm", lr=0.01, least_narrow=0)
        parameter.grad = torch.full((64, 64), 1e30)
        optimizer.step()
        with pytest.warns(UserWarning, match="moment2"):
            optimizer.state_dict()

    on_card(overflowed)


# Narrow numbers of tensors ----------------------------------------------------------------------


def values(rows: int, cols: int, seed: int = 3) -> torch.Tensor:
    x = torch.randn(rows, cols, generator=torch.Generator().manual_seed(seed))
    return x * torch.exp(torch.randn(rows, 1, generator=torch.Generator().manual_seed(seed + 1)))


@pytest.mark.parametrize("along", ["cols", "rows"])
@pytest.mark.parametrize("hadamard", [0, 32])
@pytest.mark.parametrize("format", ["mxfp4", "nvfp4", "fp8_e4m3", "mxfp6_e3m2", "int8", "mxint8"])
def test_tensors_become_the_numbers_that_arrays_do(format, hadamard, along, on_card):
    x = values(35, 70)
    words = {"along": along, "hadamard": hadamard, "seed": 9, "rounding": "stochastic"}
    there, here = on_card(ng.quantize, x, format, **words), ng.quantize(array(x), format, **words)
    assert isinstance(there, ng.Quantized) and isinstance(there.codes, torch.Tensor)
    np.testing.assert_array_equal(array(there.codes), here.codes)
    np.testing.assert_array_equal(array(there.dequantize()), here.dequantize())
    assert there.counts == here.counts
    assert float(there.tensor_scale) == here.tensor_scale
    scales = here.scales
    if scales is not None and scales.size == there.scales.numel():
        np.testing.assert_array_equal(array(there.scales), scales)


@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("format", ["mxfp4", "nvfp4", "fp8_e5m2", "int8", "bf16"])
def test_products_are_those_of_arrays(format, transpose_b, on_card):
    a, b = values(9, 64), values(13, 64, seed=5)
    b = b.t().contiguous() if transpose_b else b
    words = {"a_format": format, "b_format": "mxfp8_e4m3", "transpose_b": transpose_b}
    if format == "bf16":
        words["sum"] = "tile32"
    there = on_card(ng.matmul, a, b, **words)
    np.testing.assert_array_equal(array(there), ng.matmul(array(a), array(b), **words))


def test_numbers_are_multiplied_as_they_are(on_card):
    a, b = values(9, 64), values(13, 64, seed=5)

    def there():
        return ng.matmul(ng.quantize(a, "nvfp4"), ng.quantize(b, "nvfp4"))

    here = ng.matmul(ng.quantize(array(a), "nvfp4"), ng.quantize(array(b), "nvfp4"))
    np.testing.assert_array_equal(array(on_card(there)), here)


def test_bf16_tensors_and_more_dimensions_are_read_in_place(on_card):
    x = values(12, 64).to(torch.bfloat16).reshape(3, 4, 64)
    there = on_card(ng.quantize, x, "mxfp4")
    assert there.codes.shape == x.shape
    here = ng.quantize(array(x.float()), "mxfp4")
    np.testing.assert_array_equal(array(there.codes), here.codes)
    assert there.as_torch is not None


def test_what_a_device_has_no_numbers_of_is_refused(on_card):
    x = values(4, 32)
    with pytest.raises(ng.Error, match="bf16 on a device"):
        on_card(ng.quantize, x, "bf16")
    with pytest.raises(ng.Error, match="uint8 on a device: a tensor of the host"):
        on_card(ng.quantize, x, "uint8")
    with pytest.raises(ng.Error, match="torch.int64"):
        on_card(ng.quantize, x.to(torch.int64), "mxfp4")
    with pytest.raises(ng.Error, match="none of them 0"):
        on_card(ng.matmul, x, values(4, 64), a_format="mxfp4")
