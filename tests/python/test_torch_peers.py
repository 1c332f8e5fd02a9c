"""Every recipe in models of transformers, beside other programs and in other people's loops.

Needs transformers, torchao or lightning: scripts/python-tests --torch.
"""

from __future__ import annotations

import os

import numpy as np
import pytest

import narrowgauge as ng

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # before transformers is there
torch = pytest.importorskip("torch")
import narrowgauge.torch as ngt  # noqa: E402: needs torch
from narrowgauge.torch import _noise  # noqa: E402
from test_torch_layers import Model, Watched, array, linear  # noqa: E402

SIZES = {"vocab_size": 64, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
         "num_attention_heads": 2, "num_key_value_heads": 2, "max_position_embeddings": 64,
         "bos_token_id": 1, "eos_token_id": 2}  # fmt: skip
MODELS = {
    "GPT2": {"vocab_size": 64, "n_embd": 64, "n_layer": 2, "n_head": 2, "n_positions": 64,
             "bos_token_id": 1, "eos_token_id": 2, "resid_pdrop": 0.0, "embd_pdrop": 0.0,
             "attn_pdrop": 0.0},
    "Llama": SIZES,
    "Qwen3": {**SIZES, "head_dim": 32},
}  # fmt: skip
FORMATS = {"float8_e4m3fn": "mxfp8_e4m3", "float8_e5m2": "mxfp8_e5m2", "float4_e2m1fn": "mxfp4"}
IDS = torch.randint(3, 64, (2, 2, 32), generator=torch.Generator().manual_seed(0))


@pytest.fixture(autouse=True)
def few_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def weight_of(layer):
    """What the layer multiplies by, as (outputs, inputs)."""
    weight = layer.weight
    if layer.ng_bits is not None:
        weight = _noise.noisy(layer.ng_state, weight, layer.ng_bits, layer.ng_clip, True)
    return weight.t().contiguous() if layer.ng_state.turned else weight


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("recipe", ng.recipes())
def test_every_recipe_has_the_bits_of_the_program(kind, recipe, program, tmp_path):
    """Two micro-batches of the third step; where scales are delayed, of the first."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(**MODELS[kind])
    model = transformers.AutoModelForCausalLM.from_config(config).train()
    ngt.convert(model, recipe)
    optimizer = ngt.optimizer(model, recipe, lr=1e-3)
    is_delayed = any(layer.ng_scales is not None for layer in model.modules()
                     if isinstance(layer, ngt.Linear))  # fmt: skip
    checked = 0 if is_delayed else 2
    for number in range(checked + 1):
        watched = Watched(model) if number == checked else None
        for micro, ids in enumerate(IDS):
            model(input_ids=ids, labels=ids).loss.backward()
            for name, seen in watched.seen.items() if watched else ():
                layer = model.get_submodule(name)
                assert (seen["row"]["step"], seen["row"]["micro"]) == (number, micro)
                made = linear(program, tmp_path, weight_of(layer), layer.bias, seen)
                for ours, theirs in (("output", "y"), ("input_grad", "dx")):
                    np.testing.assert_array_equal(
                        made[ours].reshape(seen[theirs].shape), array(seen[theirs]), name
                    )
                shares = name == "lm_head" and kind == "GPT2"  # with the embedding
                if micro == 0 and layer.ng_bits is None and not shares:
                    grad = layer.weight.grad
                    grad = grad.t() if layer.ng_state.turned else grad
                    rounded = torch.tensor(made["weight_grad"]).to(grad.dtype)
                    assert torch.equal(grad, rounded), name
        optimizer.step()
        optimizer.zero_grad()


@pytest.mark.parametrize("rule", ["floor", "rceil"])
@pytest.mark.parametrize("element", ["float8_e4m3fn", "float8_e5m2", "float4_e2m1fn"])
def test_codes_are_those_of_torchao(element, rule):
    mx = pytest.importorskip("torchao.prototype.mx_formats.mx_tensor")
    modes = pytest.importorskip("torchao.prototype.mx_formats.config").ScaleCalculationMode
    x = torch.randn(64, 256, generator=torch.Generator().manual_seed(0))
    x *= torch.exp2(torch.randint(-20, 20, (64, 1), generator=torch.Generator().manual_seed(1)))
    dtype = getattr(torch, "float4_e2m1fn_x2" if "4_e" in element else element)
    scale, data = mx.to_mx(x, dtype, 32, modes[rule.upper()])
    ours = ng.quantize(x.numpy(), ng.format(FORMATS[element], scale_rule=rule))
    exponents = scale.view(torch.uint8).numpy().reshape(64, 8).astype(np.float32)
    codes = data.view(torch.uint8).numpy()
    if "4_e" in element:  # two a byte, the first in the low half
        codes = np.stack([codes & 15, codes >> 4], -1).reshape(64, 256)
    np.testing.assert_array_equal(np.exp2(exponents - 127), ours.scales)
    np.testing.assert_array_equal(codes.reshape(64, 256), ours.codes)


def test_loops_of_lightning_learn():
    lightning = pytest.importorskip("lightning")

    class Task(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model, self.losses = Model(), []
            ngt.convert(self.model, "mxfp4-all")

        def training_step(self, batch, _):
            loss = self.model(batch).square().mean()
            self.losses.append(loss.item())
            return loss

        def configure_optimizers(self):
            return ngt.optimizer(self.model, "mxfp4-all", lr=1e-2)

    task = Task()
    data = torch.utils.data.DataLoader([torch.randn(6, 40)] * 20, batch_size=2)
    trainer = lightning.Trainer(max_epochs=1, accelerator="cpu", logger=False,
                                enable_checkpointing=False, enable_progress_bar=False,
                                enable_model_summary=False)  # fmt: skip
    trainer.fit(task, data)
    assert len(task.losses) == 10 and task.losses[-1] < 0.9 * task.losses[0]
    assert next(iter(ngt.describe(task.model).values()))["step"] == 10
