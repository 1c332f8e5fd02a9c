"""narrowgauge.torch: what a layer keeps for backward is what the recipe reads there, once."""

from __future__ import annotations

import numpy as np
import pytest

import narrowgauge as ng

torch = pytest.importorskip("torch")
from test_torch_layers import Model, Watched, array, linear, text  # noqa: E402: needs torch
from torch import nn  # noqa: E402
from torch_forms import operand_form  # noqa: E402

import narrowgauge.torch as ngt  # noqa: E402
from narrowgauge._toml import setting_lines  # noqa: E402
from narrowgauge.torch._operations import Element, elements, kept, operand  # noqa: E402

T, K = 10, 72
FPROP = "linear.fprop.input"
AGAIN = {"linear.wgrad.input.from": "fprop"}
HADAMARD = {"linear.fprop.hadamard": 32, "linear.dgrad.weight.from": "fprop"}
#: Recipes whose backward reads the codes of the forward pass, and bytes of those of (T, K).
KEPT = {
    "mxfp4": ({"inherit": "mxfp4-all"}, T * 36 + T * 3 + 4),
    "nvfp4": ({"inherit": "nvfp4-all"}, T * 36 + T * 5 + 4),
    "mxfp6": ({"inherit": "mxfp6"}, T * 54 + T * 3 + 4),
    "fp8": ({"inherit": "fp8-current"}, T * 72 + 8),
    "rows": ({"inherit": "bf16", FPROP: {"format": "int8", "block": "row"}}, T * 72 + T * 4 + 4),
    "fp16": ({"inherit": "bf16", f"{FPROP}.format": "fp16"}, T * 144),
    "turned": ({"inherit": "mxfp4-all", **HADAMARD}, T * 48 + T * 3 + 4),
}  # fmt: skip
has_graphs = pytest.mark.skipif(
    not hasattr(torch.autograd.graph, "saved_tensors_hooks"), reason="needs later torch"
)


def saved_beside(parameters, call):
    """Bytes that the graph of a call keeps, parameters and numbers of passes left out, and y."""
    sizes = {}
    own = {p.data_ptr() for p in parameters}

    def pack(tensor):
        if tensor.data_ptr() not in own and tensor.dtype != torch.int64:
            sizes[tensor.data_ptr()] = tensor.numel() * tensor.element_size()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        y = call()
    return sum(sizes.values()), y


@has_graphs
@pytest.mark.parametrize("engine", ["auto", "torch"])
@pytest.mark.parametrize("kind", KEPT)
def test_codes_and_scales_are_kept_where_backward_reads_them(kind, engine):
    keys, size = KEPT[kind]
    x = torch.randn(2, T // 2, K, requires_grad=True)
    seen = {}
    for of, said in (("fprop", {**keys, **AGAIN}), ("original", keys)):
        layer = nn.Linear(K, 40)
        ngt.convert(layer, said, blocks=4, engine=engine)
        saved, y = saved_beside(layer.parameters(), lambda layer=layer: layer(x))
        (row,) = ngt.memory(layer).values()
        seen[of] = saved
        assert row["input"] == saved
        y.sum().backward()
        assert layer.weight.grad.isfinite().all()
        layer.weight.requires_grad_(False)
        saved, y = saved_beside(layer.parameters(), lambda layer=layer: layer(x))
        assert saved == 0 and ngt.memory(layer)[""]["input"] == 0
        y.sum().backward()
    assert seen["original"] == 4 * T * K
    assert seen["fprop"] == (size if engine == "auto" else pytest.approx(size, abs=8))


@has_graphs
@pytest.mark.parametrize("engine", ["auto", "torch"])
def test_a_frozen_layer_keeps_an_input_that_its_own_gradient_is_made_of(engine):
    layer = nn.Linear(64, 32).requires_grad_(False)
    ngt.convert(layer, "quartet", names=lambda _: "blocks.1.mlp.up", blocks=8, engine=engine)
    for asks in (True, False):
        x = torch.randn(8, 64, requires_grad=asks)
        size, _ = saved_beside(layer.parameters(), lambda: layer(x))
        kept = ngt.memory(layer)[""]["input"]
        assert kept == (8 * 64 * 4 if asks else 0) and size == (kept if asks else 0)


@pytest.mark.parametrize("kind", KEPT)
def test_what_is_kept_has_the_bits_of_the_program(kind, program, tmp_path):
    keys = {**KEPT[kind][0], **AGAIN}
    recipe = tmp_path / "recipe.toml"
    recipe.write_text("\n".join(setting_lines({"name": "again", **keys})) + "\n")
    for engine in ("auto", "torch"):
        model = Model()
        ngt.convert(model, keys if engine == "auto" else recipe, engine=engine)
        watched = Watched(model)
        model(text()).square().sum().backward()
        for name in ("h.1.mlp.c_proj", "lm_head"):
            seen, layer = watched.seen[name], model.get_submodule(name)
            made = linear(program, tmp_path, layer.weight, layer.bias, seen)
            close = {"rtol": 0, "atol": 0} if engine == "auto" else {"rtol": 1e-5, "atol": 1e-5}
            np.testing.assert_allclose(made["weight_grad"], array(layer.weight.grad), **close)
            dx = made["input_grad"].reshape(seen["x"].shape)
            np.testing.assert_allclose(dx, array(seen["dx"]), **close)


def test_strings_of_bits_give_codes_back():
    for bits in range(1, 9):
        codes = torch.randint(0, 1 << bits, (7, 5), dtype=torch.uint8)
        packed = kept.pack(codes, bits)
        assert 8 * packed.numel() - 35 * bits < 8 * bits
        assert torch.equal(kept.unpack(packed, bits, 35), codes.flatten().int())


@pytest.mark.parametrize(
    "name", ["e2m1", "e2m3", "e3m2", "e4m3", "e5m2", "e4m3fnuz", "int4", "int8", "ternary",
             "mxint8"]
)
def test_values_of_codes_are_those_of_the_table(name):
    row = ng.element(name)
    element = Element(row.short_name, row.kind, row.bits, row.exponent_bits, row.mantissa_bits,
                      row.bias, row.specials)  # fmt: skip
    codes = torch.arange(1 << row.bits, dtype=torch.int32)
    want = torch.tensor([row.decode(code) for code in codes.tolist()])
    values = elements.values_of(codes, element)
    given = (elements.codes(values, element).int() == codes) & ~torch.isnan(want)
    assert torch.equal(values[given], want[given])
    assert given.sum() >= (1 << row.bits) - 8


def test_blocks_of_either_element_come_back():
    form = operand_form({"format": "nvfp4", "element": ["e2m1", "int4"]})
    made = operand(torch.randn(5, 40), form, k_multiple=16)
    assert bool((made.scale < 0).any()) and bool((made.scale > 0).any())
    again = kept.read_again(kept.keep(made, 40), form, (5, 40), 48)  # the last block is short
    assert torch.equal(again.values, made.values) and torch.equal(again.codes, made.codes)
