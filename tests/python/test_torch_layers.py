"""narrowgauge.torch: converted layers have the bits of `narrowgauge linear`, in torch's habits."""

from __future__ import annotations

import copy
import gc
import io
import pickle
import resource
import threading

import numpy as np
import pytest
from conftest import array, tensors, write_tensors

import narrowgauge as ng

torch = pytest.importorskip("torch")
import narrowgauge.torch as ngt  # noqa: E402: needs torch
from torch import nn  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

RECIPES = ["fp32", "bf16", "fp8-current", "fp8-delayed", "int8", "mxfp4-sr-rht", "nvfp4",
           "mxfp4-all", "mxfp6"]  # fmt: skip
has_compile = pytest.mark.skipif(
    not hasattr(torch.library, "custom_op"), reason="needs torch 2.4 or later"
)


class Block(nn.Module):
    """A residual MLP, whose layers GPT-2's table names."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.mlp = nn.ModuleDict({"c_fc": nn.Linear(width, 72), "c_proj": nn.Linear(72, width)})

    def forward(self, x):
        return x + self.mlp["c_proj"](nn.functional.gelu(self.mlp["c_fc"](self.norm(x))))


class Model(nn.Module):
    """Two blocks and a head without bias."""

    def __init__(self, width: int = 40, repeat: str = "") -> None:
        super().__init__()
        torch.manual_seed(0)
        self.h = nn.ModuleList(Block(width) for _ in range(2))
        self.lm_head = nn.Linear(width, 24, bias=False)
        self.repeat = repeat

    def forward(self, x):
        for block in self.h:
            if self.repeat:
                x = checkpoint(block, x, use_reentrant=self.repeat == "reentrant")
            else:
                x = block(x)
        return self.lm_head(x)


def text(rows: int = 6, seed: int = 1) -> torch.Tensor:
    return torch.randn(2, rows, 40, generator=torch.Generator().manual_seed(seed))


class Watched:
    """What went through each converted layer."""

    def __init__(self, model: nn.Module) -> None:
        self.seen: dict[str, dict] = {}
        for name, layer in model.named_modules():
            if isinstance(layer, ngt.Linear):
                layer.register_forward_hook(self._forward(model, name))
                layer.register_full_backward_hook(self._backward(name))

    def _forward(self, model, name):
        def hook(_, args, y):
            self.seen[name] = {"x": args[0], "y": y, "row": ngt.describe(model)[name]}

        return hook

    def _backward(self, name):
        def hook(_, dx, dy):
            self.seen[name].update(dx=dx[0], dy=dy[0])

        return hook


def linear(program, folder, weight, bias, seen):
    """What the program makes of the same tensors."""
    outputs, inputs = weight.shape
    values = {"weight": array(weight), "input": array(seen["x"]).reshape(-1, inputs),
              "grad": array(seen["dy"]).reshape(-1, outputs)}  # fmt: skip
    if bias is not None:
        values["bias"] = array(bias)
    write_tensors(folder / "in", values)
    row = seen["row"]
    flags = [f"--{key.replace('_', '-')}={row[key]}" for key in row if key != "recipe"]
    program("linear", folder / "in", folder / "out", "--recipe", row["recipe"], *flags)
    return tensors(folder / "out")


@pytest.mark.parametrize("recipe", RECIPES)
def test_layers_have_the_bits_of_the_program(recipe, program, tmp_path):
    model = Model()
    ngt.convert(model, recipe)
    watched = Watched(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    ngt.attach(model, optimizer)
    torch.optim.lr_scheduler.ConstantLR(optimizer)  # of attached optimizers, too
    for step in range(1 if recipe == "fp8-delayed" else 2):
        for micro in range(2):
            before = {n: p.grad.clone() if p.grad is not None else torch.zeros_like(p)
                      for n, p in model.named_parameters()}  # fmt: skip
            model(text(seed=micro)).square().sum().backward()
            for name, seen in watched.seen.items():
                layer = model.get_submodule(name)
                assert (seen["row"]["step"], seen["row"]["micro"]) == (step, micro)
                made = linear(program, tmp_path, layer.weight, layer.bias, seen)
                y = made["output"].reshape(seen["y"].shape)
                np.testing.assert_array_equal(y, array(seen["y"]))
                np.testing.assert_array_equal(
                    made["input_grad"].reshape(seen["x"].shape), array(seen["dx"])
                )
                if micro == 0:
                    grad = layer.weight.grad - before[f"{name}.weight"]
                    np.testing.assert_array_equal(made["weight_grad"], array(grad))
        optimizer.step()
        optimizer.zero_grad()


def trained(mode="", recipe="mxfp4-sr-rht", threads=1, same=False, engine="auto"):
    """Losses of two steps of two micro-batches, and the weights behind them."""
    torch.set_num_threads(threads)
    model = Model(repeat=mode if mode in ("reentrant", "frames") else "")
    ngt.convert(model, recipe, engine=engine)
    if mode == "aot_eager":
        torch._dynamo.reset()
    call = torch.compile(model, backend=mode, fullgraph=True) if mode == "aot_eager" else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    ngt.attach(model, optimizer)
    losses = []
    for _ in range(2):
        for micro in range(2):
            x = text(seed=0 if same else micro).requires_grad_()
            loss = call(x).square().mean()
            loss.backward()
            losses.append(loss.item())
        optimizer.step()
        optimizer.zero_grad()
    torch.set_num_threads(1)
    return losses, [array(p) for p in model.parameters()]


@pytest.mark.parametrize("same", [False, True])
@pytest.mark.parametrize(
    "mode", ["reentrant", "frames", pytest.param("aot_eager", marks=has_compile)]
)
def test_checkpointing_and_compiling_change_no_bit(mode, same):
    plain, repeated = trained(same=same), trained(mode, same=same)
    assert plain[0] == repeated[0]
    for a, b in zip(plain[1], repeated[1], strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("recipe", ng.recipes())
def test_torch_operations_train_as_the_kernels_do(recipe):
    kernels, operations = trained(recipe=recipe), trained(recipe=recipe, engine="torch")
    np.testing.assert_allclose(kernels[0], operations[0], rtol=1e-6)
    for a, b in zip(kernels[1], operations[1], strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


@pytest.mark.parametrize("mode", ["frames", pytest.param("aot_eager", marks=has_compile)])
@pytest.mark.parametrize("recipe", ["nvfp4", "averis", "fp4-dge"])
def test_torch_operations_repeat_and_compile(recipe, mode):
    plain = trained(recipe=recipe, engine="torch")
    repeated = trained(mode, recipe=recipe, engine="torch")
    assert plain[0] == repeated[0]


def test_micro_batches_and_uses_draw_their_own():
    layer = nn.Linear(64, 64)
    ngt.convert(layer, "nvfp4-sr-forward", blocks=12)
    x = torch.randn(4, 64)
    assert not torch.equal(layer(x), layer(x))
    twice = nn.Sequential(layer, layer)
    ngt.convert(twice, "nvfp4-sr-forward", names=lambda _: "blocks.0.mlp.up", blocks=12)
    twice(x)
    assert ngt.describe(twice)["0"]["micro"] == 1 << 16
    twice.eval()
    assert torch.equal(twice(x), twice(x))


def test_threads_change_no_bit_of_a_layer():
    x = torch.randn(70, 96)
    seen = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        torch.manual_seed(0)
        layer = nn.Linear(96, 130)
        ngt.convert(layer, "mxfp4-sr-rht", blocks=2)
        y = layer(x)
        y.backward(torch.ones_like(y))
        seen.append((array(y), array(layer.weight.grad)))
    torch.set_num_threads(1)
    for y, grad in seen[1:]:
        np.testing.assert_array_equal(y, seen[0][0])
        np.testing.assert_array_equal(grad, seen[0][1])


def test_a_step_is_carried_by_the_optimizer_and_scales_by_the_model():
    def begun():
        model = Model()
        ngt.convert(model, "fp8-delayed")
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        ngt.attach(model, optimizer)
        return model, optimizer

    def step(model, optimizer):
        model(text()).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    model, optimizer = begun()
    step(model, optimizer)
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
    assert any(key.endswith("ng_scales") for key in model.state_dict())
    step(model, optimizer)

    again, its = begun()
    file.seek(0)
    saved = torch.load(file)
    again.load_state_dict(saved["model"])
    its.load_state_dict(saved["optimizer"])
    assert ngt.describe(again)["lm_head"]["step"] == 1
    step(again, its)
    for a, b in zip(model.state_dict().values(), again.state_dict().values(), strict=True):
        assert torch.equal(a, b)


def test_scales_stay_fp32_in_a_model_of_bf16():
    model = Model().bfloat16()
    ngt.convert(model, "fp8-delayed")
    later = Model()
    ngt.convert(later, "fp8-delayed")
    later.bfloat16()
    for one in (model, later):
        optimizer = torch.optim.SGD(one.parameters(), lr=0.01)
        ngt.attach(one, optimizer)
        for _ in range(2):
            one(text().bfloat16()).float().square().mean().backward()
            optimizer.step()
    scales, same = (one.h[0].mlp["c_fc"].ng_scales for one in (model, later))
    assert scales.dtype == torch.float32 and scales.count_nonzero() > 6
    assert torch.equal(scales, same)


def test_copies_go_on_by_themselves():
    model = Model()
    ngt.convert(model, "mxfp4-sr-rht")
    model(text()).sum().backward()
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert isinstance(other.lm_head, ngt.Linear) and isinstance(other.lm_head, nn.Linear)
        x = text(seed=5)
        other(x).sum().backward()
        assert ngt.describe(other)["lm_head"]["micro"] == 1
        assert ngt.describe(model)["lm_head"]["micro"] == 0


def test_restore_gives_the_old_layers_back():
    model = Model()
    keys, first = list(model.state_dict()), [id(p) for p in model.parameters()]
    report = ngt.convert(model, "fp8-delayed", skip=["lm_head"])
    assert report.skipped == ["lm_head"] and "h.1.mlp.c_fc" in str(report)
    assert [row.layer for row in report][:2] == ["blocks.0.mlp.up", "blocks.0.mlp.down"]
    ngt.convert(model, "bf16")
    assert ngt.describe(model)["h.0.mlp.c_fc"]["recipe"] == "bf16"
    assert ngt.restore(model) is model
    assert list(model.state_dict()) == keys and type(model.lm_head) is nn.Linear
    assert [id(p) for p in model.parameters()] == first
    with pytest.raises(ng.Error, match="convert"):
        ngt.describe(model)


def test_what_linear_layers_take():
    layer = nn.Linear(40, 24)
    ngt.convert(layer, "mxfp4-all", blocks=4)
    assert layer(torch.empty(0, 3, 40)).shape == (0, 3, 24)
    empty = torch.empty(0, 40, requires_grad=True)
    layer(empty).sum().backward()
    assert not layer.weight.grad.any() and empty.grad.shape == (0, 40)
    x = torch.randn(40, 6).t()  # columns side by side
    assert torch.equal(layer(x), layer(x.contiguous()))
    assert torch.equal(layer(x[:1].expand(5, 40)), layer(x[:1].repeat(5, 1)))
    y = layer(x.to(torch.bfloat16))
    assert y.dtype == torch.bfloat16
    layer.weight.requires_grad_(False)
    layer.zero_grad(set_to_none=True)
    x = x.contiguous().requires_grad_()
    layer(x).sum().backward()
    assert layer.weight.grad is None and x.grad is not None and layer.bias.grad is not None
    with torch.no_grad():
        assert not layer(x).requires_grad
    wide = nn.Linear(40, 24).to(torch.bfloat16)
    ngt.convert(wide, "mxfp4-all", blocks=4)
    wide(torch.randn(3, 40)).sum().backward()
    assert wide.weight.grad.dtype == wide.bias.grad.dtype == torch.bfloat16


def test_autocast_hands_layers_bf16():
    model, x = Model().train(), text()
    ngt.convert(model, "mxfp4-all")
    y = model.h[0].mlp["c_fc"](x.bfloat16())
    ngt.convert(model, "mxfp4-all")
    with torch.autocast("cpu", torch.bfloat16):
        same = model.h[0].mlp["c_fc"](x)
        whole = model(x)
    assert same.dtype == whole.dtype == torch.bfloat16 and torch.equal(same, y)
    whole.float().square().mean().backward()
    assert model.lm_head.weight.grad.dtype == torch.float32


def test_weights_that_were_written_past_autograd_are_seen():
    layer = nn.Linear(64, 64)
    ngt.convert(layer, "bf16")
    x = torch.randn(3, 64)
    first = layer(x)
    layer.weight.data.mul_(2)
    assert not torch.equal(layer(x), first)


def test_refusals_name_the_layer():
    model = Model()
    with pytest.raises(ng.Error, match='recipe: unknown "nvfp5"'):
        ngt.convert(model, "nvfp5")
    with pytest.raises(ng.Error, match='^skip: "head" means no module'):
        ngt.convert(model, "bf16", skip=["head"])
    assert type(model.lm_head) is nn.Linear
    with pytest.raises(ng.Error, match='^engine: "cuda": "auto", "kernels" or "torch"'):
        ngt.convert(model, "bf16", engine="cuda")
    with pytest.raises(ng.Error, match="^0: lies in no block"):
        ngt.convert(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)), "bf16")
    shared = Model(width=24)
    shared.tied = nn.Linear(24, 24, bias=False)
    shared.tied.weight = shared.lm_head.weight
    with pytest.raises(ng.Error, match="tied: shares its weight with lm_head"):
        ngt.convert(shared, "bf16", skip=["tied"])
    ngt.convert(model, "bf16")
    with pytest.raises(ng.Error, match=r"lm_head: head: input is torch\.float16"):
        model.lm_head(torch.zeros(1, 40, dtype=torch.float16))
    twice = "gradient of a gradient|once_differentiable"
    with pytest.raises((ng.Error, RuntimeError), match=twice):
        x = text().requires_grad_()
        (grad,) = torch.autograd.grad(model(x).square().sum(), x, create_graph=True)
        grad.sum().backward()


def test_a_model_is_converted_once_at_a_time():
    model = Model()
    threads = [threading.Thread(target=ngt.convert, args=(model, "mxfp4-all")) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    model(text()).sum().backward()
    ngt.restore(model)


def test_nothing_leaks():
    layer = nn.Linear(16, 16)
    ngt.convert(layer, "mxfp4-sr-rht", blocks=4)
    optimizer = torch.optim.SGD(layer.parameters(), lr=1e-3)
    ngt.attach(layer, optimizer)
    x = torch.randn(4, 16)

    def steps(count):
        for _ in range(count):
            layer(x).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        gc.collect()
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    before = steps(500)
    assert steps(10_000) - before < 4096  # KiB
