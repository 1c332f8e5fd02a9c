"""narrowgauge.torch: what convert says, what it leaves to others, and what it refuses."""

from __future__ import annotations

import copy
import inspect

import pytest

import narrowgauge as ng

torch = pytest.importorskip("torch")
import narrowgauge.torch as ngt  # noqa: E402: needs torch
from narrowgauge.torch import _anywhere  # noqa: E402
from torch import nn  # noqa: E402

has_compile = pytest.mark.skipif(
    not hasattr(torch.library, "custom_op"), reason="needs torch 2.4 or later"
)


def layers(**of) -> nn.ModuleDict:
    return nn.ModuleDict(of)


def pair(width=32) -> nn.ModuleList:
    return nn.ModuleList(nn.Linear(width, width) for _ in range(2))


def test_what_layers_do_not_do_is_said():
    report = ngt.convert(layers(blocks=pair()), "fp8-lm")
    update, wire, ranks = report.others
    assert update.startswith("weights.storage = fp8_e4m3, weights.master = fp16")
    assert wire.startswith("gradient.communicate = fp8_e4m3") and "auto_scale = true" in wire
    assert ranks == ("gradient.shard = tensor, communication.activations = fp8_e4m3, "
                     "communication.weights = fp8_e4m3: of the trainer's ranks alone")  # fmt: skip
    assert all(line in str(report) for line in report.others)
    assert ngt.convert(layers(blocks=pair()), "mxfp4-all").others == []
    saved = {"attention.probabilities": "bf16", "saved.norm": "fp8_e4m3",
             "saved.activation": "mxfp8_e4m3", "saved.attention": "bf16"}  # fmt: skip
    for engine in ("kernels", "torch"):
        report = ngt.convert(layers(blocks=pair()), {"inherit": "bf16", **saved}, engine=engine)
        (line,) = report.others
        keys, _, whose = line.partition(": ")
        assert keys.split(", ") == [f"{key} = {value}" for key, value in saved.items()]
        assert whose == "those of norms, activations and attention, which PyTorch computes"
    assert "optimizer.kind = muon" in ngt.convert(layers(blocks=pair()), "muon").others[0]


def test_names_that_users_say():
    model = layers(layers=pair(), out=nn.Linear(32, 4))
    names = {"layers.{n}": "blocks.{n}.mlp.up", "out": "head"}
    assert [row.layer for row in ngt.convert(model, "bf16", names=names)] == [
        "blocks.0.mlp.up", "blocks.1.mlp.up", "head"]  # fmt: skip
    report = ngt.convert(model, "bf16", names=lambda name: "head" if name == "out" else None)
    assert [row.layer for row in report] == ["blocks.0.linear", "blocks.1.linear", "head"]
    with pytest.raises(ng.Error, match='^out: lies in no block.*skip=."out"'):
        ngt.convert(model, "bf16")


def test_blocks_of_timm_and_of_older_transformers_have_their_names():
    def attention(*names):
        return layers(**{name: nn.Linear(8, 8) for name in names})

    block = layers(attn=attention("qkv", "proj"), mlp=attention("fc1_g", "fc2"))
    model = layers(blocks=nn.Sequential(block, copy.deepcopy(block)), head=nn.Linear(8, 2))
    assert [row.layer for row in ngt.convert(model, "bf16")][3:] == [
        "blocks.0.mlp.down", "blocks.1.attn.qkv", "blocks.1.attn.out", "blocks.1.mlp.fc1_g",
        "blocks.1.mlp.down", "head"]  # fmt: skip
    older = layers(attention=layers(attention=attention("query", "key", "value")))
    model = layers(encoder=layers(layer=nn.ModuleList([older])))
    assert [row.layer for row in ngt.convert(model, "bf16")] == [
        f"blocks.0.attn.{part}" for part in "qkv"]  # fmt: skip


def test_blocks_in_blocks_belong_to_the_outer():
    inner = layers(layers=nn.ModuleList(layers(fc1=nn.Linear(8, 8)) for _ in range(3)))
    model = layers(stages=nn.ModuleList([inner, copy.deepcopy(inner)]))
    report = ngt.convert(model, "bf16")
    assert [row.layer for row in report][3] == "blocks.1.layers.0.fc1"


def test_a_decoders_blocks_are_behind_the_encoders():
    def stack(count):
        return layers(layers=nn.ModuleList(layers(fc1=nn.Linear(8, 8)) for _ in range(count)))

    model = layers(encoder=stack(2), decoder=stack(3))
    assert [row.layer for row in ngt.convert(model, "bf16")] == [
        f"blocks.{number}.mlp.up" for number in range(5)
    ]


def test_only_reaches_what_it_means():
    model = layers(blocks=pair(), head=nn.Linear(32, 4))
    report = ngt.convert(model, "mxfp4-all", only=["blocks.*"])
    assert len(report) == 2 and report.skipped == ["head"]
    assert "left as they are: head" in str(report)


class Own(nn.Linear):
    """A layer that computes something else."""

    def forward(self, x):
        return super().forward(x).relu()


def test_the_report_says_bytes_and_sizes_that_blocks_do_not_divide():
    model = layers(blocks=nn.ModuleList(nn.Linear(40, 64) for _ in range(2)), head=nn.Linear(40, 3))
    report = ngt.convert(model, "mxfp4-all")
    first, second, head = report
    assert first.bytes == second.bytes == 64 * 20 + 64 * 2  # codes, and two scales a row
    assert head.bytes == 2 * 3 * 40 and "1,408" in str(report)
    assert report.warnings == [
        "blocks.*: 40 inputs are no multiple of 32: zeros fill the last block"
    ]
    assert ngt.convert(layers(blocks=pair(64)), "mxfp4-all").warnings == []


def test_what_a_recipe_says_in_vain_is_warned_of():
    vain = {"layers": ["*.attn.q"], "linear": "bf16"}
    recipe = {"inherit": "gaussws-all", "weight_noise.layers": ["*.attn.k"]}
    noise, override = ngt.convert(layers(blocks=pair(64)), {**recipe, "override": [vain]}).warnings
    assert noise.startswith("weight_noise.layers: match no layer of this model")
    assert override == "override[1]: means no layer of this model"
    said = {"inherit": "mxfp4-all", "override": [{**vain, "optional": True}]}
    assert ngt.convert(layers(blocks=pair(64)), said).warnings == []


def test_layers_that_cannot_be_converted_are_warned_of():
    model = layers(
        blocks=pair(),
        attention=nn.MultiheadAttention(8, 2),
        own=nn.ModuleList([Own(4, 4), Own(4, 4)]),
    )
    attention, own = ngt.convert(model, "bf16").warnings
    assert attention == "attention: nn.MultiheadAttention multiplies by itself and stays as it is"
    assert own == "own.*: Own multiplies by its weight itself, as before"


def test_noise_on_devices_without_fp64_is_refused_by_name():
    layer = nn.Linear(64, 32)
    ngt.convert(layer, "nipq", names=lambda _: "blocks.0.mlp.up", engine="torch")
    with pytest.raises(ng.Error, match="blocks.0.mlp.up: noise on weights needs FP64, which mps"):
        _anywhere.require_fp64(layer.ng_state, torch.device("mps"))


def test_other_devices_and_types_are_refused_by_name():
    model = layers(blocks=pair()).to("meta")
    ngt.convert(model, "mxfp4-all", engine="kernels")
    with pytest.raises(ng.Error, match=r"^blocks.0: blocks.0.linear: input is on meta"):
        model["blocks"][0](torch.zeros(2, 32, device="meta"))
    with pytest.raises(ng.Error, match=r"weight is on meta"):
        model["blocks"][0](torch.zeros(2, 32))
    half = nn.Linear(32, 32).half()
    ngt.convert(half, "mxfp4-all")
    with pytest.raises(ng.Error, match=r"blocks.0.linear: input is torch.float16: torch.fl"):
        half(torch.zeros(2, 32).half())
    with pytest.raises(ng.Error, match=r"weight is torch.float16"):
        half(torch.zeros(2, 32))


@pytest.mark.parametrize("engine", ["auto", "torch"])
def test_what_no_layer_computes_is_refused_by_name(engine):
    layer = nn.Linear(64, 32)
    ngt.convert(layer, "mxfp4-all", engine=engine)
    for shape in [(3, 128), (3, 65), ()]:  # of which the first would be cut into rows
        with pytest.raises(ng.Error, match=rf"blocks.0.linear: input is \({str(shape)[1:-1]}\): "):
            layer(torch.randn(shape))
    x = torch.randn(3, 64, requires_grad=True)
    (grad,) = torch.autograd.grad(layer(x).square().sum(), x, create_graph=True)
    with pytest.raises((ng.Error, RuntimeError), match="gradient of a gradient|once_diff"):
        grad.square().sum().backward()
    layer.bias.data = layer.bias.data.half()
    with pytest.raises(ng.Error, match=r"blocks.0.linear: bias is torch\.float16: torch\.float32"):
        layer(x)


@pytest.mark.parametrize("engine", ["kernels", "torch"])
def test_noise_is_differentiated_once(engine):
    layer = nn.Linear(64, 32)
    ngt.convert(layer, "gaussws-all", names=lambda _: "blocks.0.mlp.up", engine=engine)
    y = layer(torch.randn(3, 64)).square().sum()
    with pytest.raises((ng.Error, RuntimeError), match="gradient of a gradient|once_diff"):
        (grad,) = torch.autograd.grad(y, layer.weight, create_graph=True)
        grad.square().sum().backward()


@has_compile
def test_transforms_that_do_not_work_say_what_does():
    model = nn.Linear(32, 32)
    ngt.convert(model, "mxfp4-all", blocks=4)
    with pytest.raises(ng.Error, match="vmap.*a batch of inputs in one call"):
        torch.vmap(model)(torch.randn(3, 32))
    if not inspect.signature(torch.export.export).parameters["strict"].default:
        with pytest.raises(ng.Error, match=r"torch\.export.*restore\(model\)"):  # else wrapped
            torch.export.export(model, (torch.randn(3, 32),))
    for transform in (lambda x: torch.func.grad(lambda x: model(x).sum())(x),
                      lambda x: torch.func.jvp(model, (x,), (x,))):  # fmt: skip
        with pytest.raises(ng.Error, match=r"torch\.func.*loss\.backward"):
            transform(torch.randn(3, 32))


def test_traces_are_refused_by_name():
    model = nn.Sequential(nn.Linear(32, 32))
    ngt.convert(model, "mxfp4-all", names={"0": "blocks.0.mlp.up"})
    refusal = r"^0: blocks\.0\.mlp\.up: torch\.jit\.trace would keep .*restore\(model\)"
    with pytest.raises(ng.Error, match=refusal):
        torch.jit.trace(model, (torch.randn(3, 32),))


def test_what_is_no_model_or_optimizer_is_refused():
    model = nn.Linear(32, 32)
    ngt.convert(model, "mxfp4-all", blocks=4)
    with pytest.raises(ng.Error, match="^optimizer: is NoneType: a torch.optim.Optimizer$"):
        ngt.attach(model, None)
    with pytest.raises(ng.Error, match="^model_or_params: is NoneType: a model, or"):
        ngt.optimizer(None, "bf16")
    with pytest.raises(ng.Error, match="^recipe: is int: a name, a TOML file, a dict"):
        ngt.convert(model, 3)
    for use in (ngt.describe, ngt.memory, ngt.penalty, ngt.restore, ngt.step):
        with pytest.raises(ng.Error, match="^model: is NoneType: a torch.nn.Module$"):
            use(None)


@pytest.mark.parametrize(
    "words", [{"seed": -1}, {"seed": "a"}, {"step": 1 << 32}, {"blocks": 0}, {"steps": 0}]
)
def test_numbers_of_convert_are_checked(words):
    ((key, value),) = words.items()
    said = f"{value}: . to " if isinstance(value, int) else f'"{value}" is no whole number'
    with pytest.raises(ng.Error, match=f"^{key}: {said}"):
        ngt.convert(layers(blocks=pair()), "bf16", **words)


def test_checkpoints_of_the_plain_model_load():
    plain, model = layers(blocks=pair()), layers(blocks=pair())
    ngt.convert(model, "fp8-delayed")
    scales = model["blocks"][0].ng_scales.fill_(2.0)
    model.load_state_dict(plain.state_dict())
    assert torch.equal(model["blocks"][1].weight, plain["blocks"][1].weight)
    assert bool((scales == 2.0).all())
    with pytest.raises(RuntimeError, match="Missing key.*blocks.0.weight"):
        model.load_state_dict({})


def test_models_without_layers_to_convert_are_refused():
    for layer in (nn.LazyLinear(4), nn.Linear(0, 4)):
        with pytest.raises(ng.Error, match=r'^out: has a weight without values: .*skip=."out"'):
            ngt.convert(layers(blocks=pair(), out=layer), "bf16", names={"out": "head"})
    with pytest.raises(ng.Error, match="^model: is NoneType: a torch.nn.Module"):
        ngt.convert(None, "bf16")
    assert ngt.convert(layers(blocks=pair(), out=nn.Linear(4, 4)), "bf16", skip="out").skipped
