"""Noise on weights in torch operations: the bits of the kernels and of golden vectors."""

from __future__ import annotations

import math
import re

import pytest
from conftest import GOLDEN, ROOT, tensors

torch = pytest.importorskip("torch")
if not hasattr(torch, "get_default_device"):
    pytest.skip(f"torch {torch.__version__} has no default device", allow_module_level=True)

from torch import nn  # noqa: E402
from torch_forms import as_tensor, golden_cases, hostile, same_bits, where  # noqa: E402

import narrowgauge.torch as ngt  # noqa: E402: needs torch
from narrowgauge.torch import _noise  # noqa: E402
from narrowgauge.torch._operations import (  # noqa: E402
    NoiseSource, add_noise, functions, noise_backward,
)
from narrowgauge.torch._operations.functions import exp2, sigmoid, softplus  # noqa: E402
from narrowgauge.torch._operations.noise_casts import _most_bits, round_by_bits  # noqa: E402

__all__ = ["where"]  # a fixture

WIDE = {"linear.fprop.weight": "fp32", "linear.dgrad.weight": "fp32"}
#: Each kind and block, and each way in which ŵ is cast.
RECIPES = {
    "gaussws-all": {},
    "diffq": {},
    "nipq": {},
    "gaussws-all fp32": {"weight_noise.cast": "fp32", **WIDE},
    "gaussws-all tensor": {"weight_noise.block": "tensor"},
    "diffq tensor": {"weight_noise.block": "tensor"},
    "gaussws-all mxfp8": {"weight_noise.cast": "mxfp8_e4m3"},
    "gaussws-all table": {"weight_noise.cast": "table"},
    "diffq table": {"weight_noise.cast": "table", **WIDE},
    "diffq fp8": {"weight_noise.cast": "fp8_e4m3", **WIDE},
    "diffq fp16": {"weight_noise.cast": {"format": "fp16", "scale": "pow2"}, **WIDE},
    "diffq int8": {"weight_noise.cast": "int8", **WIDE},
    "diffq mxfp4": {"weight_noise.cast": {"format": "mxfp4", "rounding": "stochastic"}},
    "nipq nvfp4": {"weight_noise.cast": "nvfp4", **WIDE},
    "nipq fp32": {"weight_noise.cast": "fp32", **WIDE},
    "nipq table": {"weight_noise.cast": "table"},
}


def recipe_of(name: str) -> dict:
    return {"inherit": name.split()[0], **RECIPES[name]}


def noisy_layer(recipe, engine: str, weight: torch.Tensor, turned: bool = False):
    """A layer with that weight, its bit-widths and its clip somewhere on their way."""
    layer = nn.Linear(*weight.shape[::-1], bias=False)
    layer.weight = nn.Parameter(weight.to("cpu" if engine == "kernels" else weight.device))
    ngt.convert(layer, recipe, seed=2**63 + 3, step=5, names=lambda _: "blocks.0.mlp.up",
                engine=engine)  # fmt: skip
    draws = torch.Generator("cpu").manual_seed(2)
    with torch.no_grad():
        spread = torch.rand(layer.ng_bits.shape, generator=draws, device="cpu")
        is_proxy = layer.ng_clip is not None
        layer.ng_bits.mul_(((0.9 if is_proxy else -1.0) + (0.2 if is_proxy else 5.0) * spread)
                           .to(layer.ng_bits.device))  # fmt: skip
        if is_proxy:
            layer.ng_clip.fill_(-1.5)
    return layer


def passes_of(layer, grad: torch.Tensor):
    """ŵ in training and at evaluation, dL/dw and what noise learns of dL/dŵ; on the CPU."""
    at = layer.ng_state, layer.weight, layer.ng_bits, layer.ng_clip
    made = _noise.noisy(*at, True)
    made.backward(grad.to(made.device))
    learned = [of.grad for of in (layer.ng_bits, layer.ng_clip) if of is not None]
    parts = [made, _noise.noisy(*at, False), layer.weight.grad, *learned]
    return [part.detach().float().cpu() for part in parts]


@pytest.mark.parametrize("name", RECIPES)
def test_noise_has_the_bits_of_the_kernels(name):
    for shape, dtype in (((40, 70), "float32"), ((96, 200), "float32"), ((33, 64), "bfloat16"),
                         ((1, 3), "float32")):  # fmt: skip
        weight = torch.randn(shape).to(getattr(torch, dtype))
        grad = torch.randn(shape)
        kernels, made = (passes_of(noisy_layer(recipe_of(name), engine, weight), grad)
                         for engine in ("kernels", "torch"))  # fmt: skip
        for what, (a, b) in enumerate(zip(kernels, made, strict=True)):
            if what < 3 or weight.device.type == "cpu":
                assert same_bits(a, b), (shape, what)
            else:  # whose sum over tiles has an order of its own
                assert torch.allclose(a, b, rtol=2.0**-22, atol=0), (shape, what)


@pytest.mark.parametrize("name", ["gaussws-all", "diffq", "nipq", "gaussws-all table"])
def test_weights_that_are_hard_to_scale(name):
    """Subnormals, zeros of both signs, blocks of zeros, 1e30; NaN and infinity."""
    weight = hostile(96, 96)
    weight[weight.abs() > 1e31] = 1e30
    for odd in (None, float("nan"), float("inf")):
        if odd is not None:
            weight[40, 70] = odd
        layers = [noisy_layer(recipe_of(name), engine, weight) for engine in ("kernels", "torch")]
        kernels, made = (_noise.noisy(of.ng_state, of.weight, of.ng_bits, of.ng_clip, True)
                         .detach().cpu() for of in layers)  # fmt: skip
        assert same_bits(kernels, made), odd


def test_a_cast_with_scales_does_not_hide_what_is_not_finite():
    weight = torch.randn(32, 64)
    weight[3, 5] = float("nan")
    layer = noisy_layer(recipe_of("nipq nvfp4"), "torch", weight)
    made = _noise.noisy(layer.ng_state, layer.weight, layer.ng_bits, layer.ng_clip, True)
    assert torch.isnan(made).any()


def test_golden_noise():
    path = GOLDEN / "noise/forward.safetensors"
    of = {name: as_tensor(array) for name, array in tensors(path).items()}
    for case, at in golden_cases(path).items():
        if case == "histogram":
            continue
        w = of[f"{case}.w"]
        for recipe, prefix in (("gaussws-all", ""), ("diffq", ".diffq")):
            keys = {f"weight_noise.{key}": at[key] for key in ("b_init", "b_target")}
            layer = noisy_layer({"inherit": recipe, **keys}, "torch", w)
            source = NoiseSource(int(at["seed"]), at["tensor_id"], at["step"], of[f"{case}.b_i"],
                                 None)  # fmt: skip
            made, scales = add_noise(w, layer.ng_state.noise_form, source)
            want = of[f"{case}{prefix}.codes"].int() & 0xFFFF
            codes = made.view(torch.int32) >> 16 & 0xFFFF
            assert not ((codes != want) & (of[f"{case}{prefix}.sure"] != 0)).any(), case
            near = 0 if at["exact_scale"] else 2.0**-21
            assert torch.allclose(scales.double(), of[f"{case}.s"], rtol=near, atol=0), case


def test_golden_gradients_of_bit_widths():
    path = GOLDEN / "noise/gradients.safetensors"
    of = {name: as_tensor(array) for name, array in tensors(path).items()}
    for case, at in golden_cases(path).items():
        for layer, key in enumerate(at["keys"]):
            w = of[f"{case}.layer{layer}.w"]
            for kind in ("gaussws", "diffq"):
                recipe = "gaussws-all" if kind == "gaussws" else kind
                form = noisy_layer(recipe, "torch", w).ng_state.noise_form
                source = NoiseSource(int(key["seed"]), key["tensor_id"], key["step"],
                                     of[f"{case}.layer{layer}.b_i"], None)  # fmt: skip
                _, scales = add_noise(w, form, source)
                at_layer = f"{case}.{kind}.bf16.layer{layer}"
                grad = of[f"{at_layer}.dw_hat"].float()
                dw, made, _ = noise_backward(grad, w, scales, form, source)
                want = of[f"{at_layer}.db_t"] * (at["b_init"] - at["b_target"])
                assert dw is grad
                assert (made - want).abs().max() <= 1e-5 * want.abs().max(), at_layer


def test_golden_table_of_bits():
    """Table C.1: what suffices for b_t bits is the first format with as many as its row says."""
    of = tensors(GOLDEN / "noise/rules.safetensors")
    layer = noisy_layer(recipe_of("gaussws-all table"), "torch", torch.randn(32, 32))
    formats = layer.ng_state.noise_form.formats
    names = ["e3m2", "e4m3", "bf16", "fp16", "fp32"]
    assert [element.name for element in formats] == names
    for bits, exponent, mantissa in zip(
        of["normal.bits"], of["normal.exponent_w_hat"], of["normal.mantissa_w_hat"], strict=True
    ):
        for element in formats:
            is_enough = element.exponent_bits >= exponent and element.mantissa_bits >= mantissa
            assert (bits <= _most_bits(element)) == is_enough, (bits, element.name)
    x = torch.randn(32, 32)
    for bits in (float("nan"), float("inf")):
        made = round_by_bits(x, (32, 32), torch.full((1, 1), bits), formats)
        assert torch.equal(x, made)


def test_terms_are_those_of_the_kernels():
    of_exp = [*functions._EXP, functions._LOG2_E, functions._ROUNDER]
    for header, terms in (("exp.h", of_exp), ("log.h", functions._LOG)):
        text = (ROOT / "src/math" / header).read_text()
        said = {float.fromhex(word) for word in re.findall(r"0x1\.[0-9a-f]+p[+-]\d+", text)}
        assert {*terms, functions._LN2_HIGH, functions._LN2_LOW} <= said, header
    assert f"{functions._SQRT_HALF:X}" in (ROOT / "src/math/log.h").read_text()


def test_functions_are_within_an_ulp():
    """And powers of two exact: what noise on weights is made of on every device."""
    whole = torch.arange(-149, 128, dtype=torch.float32)
    assert [float(p) for p in exp2(whole)] == [2.0**e for e in range(-149, 128)]
    e = torch.linspace(-120, 127, 4001)
    want = torch.exp2(e.double())
    assert ((exp2(e).double() - want).abs() <= want * 2.0**-23).all()
    assert exp2(torch.tensor(-300.0)) == 0 and exp2(torch.tensor(float("nan"))).isnan()
    for x in (-700.0, -40.0, -1.5, 0.0, 1e-9, 2.0, 39.9, 40.1, 700.0):
        wide = torch.tensor(x, dtype=torch.float64)
        soft = x if x > 40 else math.log1p(math.exp(x))
        assert float(softplus(wide)) == pytest.approx(soft, rel=1e-15, abs=3e-16)
        assert float(sigmoid(wide)) == pytest.approx(1 / (1 + math.exp(-x)), rel=1e-15)


@pytest.mark.parametrize(
    "name, backend", [("gaussws-all table", "aot_eager"), ("diffq", "inductor")]
)
def test_compiled_noise_has_the_bits_of_eager(name, backend):
    """Of whole models: test_torch_noise.py."""
    torch._dynamo.reset()
    form = noisy_layer(recipe_of(name), "torch", torch.randn(40, 70)).ng_state.noise_form
    w, grad = torch.randn(40, 70), torch.randn(40, 70)
    learned = form.first + 0.3 * torch.rand(form.shape)

    def run(step):
        source = NoiseSource(3, 7, step, learned, None)
        y, scales = add_noise(w, form, source)
        if backend == "inductor":  # which takes long enough for this
            return y, scales
        return y, scales, *noise_backward(grad, w, scales, form, source)

    compiled = torch.compile(run, backend=backend, fullgraph=True)
    for step in (torch.tensor(3), torch.tensor(4)):
        for a, b in zip(run(step), compiled(step), strict=True):
            assert (a is None) == (b is None) and (a is None or same_bits(a, b))
