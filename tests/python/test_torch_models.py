"""narrowgauge.torch in models of transformers, PEFT and their Trainer."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
tf = pytest.importorskip("transformers")
import narrowgauge.torch as ngt  # noqa: E402: needs torch
from torch import nn  # noqa: E402

SPECIAL = {"vocab_size": 64, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 0}
SIZES = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2}
GROUPED = {**SPECIAL, **SIZES, "num_key_value_heads": 1, "head_dim": 16}
LLAMA = ["attn.q", "attn.k", "attn.v", "attn.out", "mlp.gate", "mlp.up", "mlp.down"]
SEPARATE = ["attn.q", "attn.k", "attn.v", "attn.out", "mlp.up", "mlp.down"]


def gpt2(**more):
    return tf.GPT2LMHeadModel(
        tf.GPT2Config(n_positions=32, n_embd=32, n_layer=2, n_head=2, **SPECIAL, **more)
    )


def llama():
    return tf.LlamaForCausalLM(tf.LlamaConfig(**GROUPED))


def vit():
    return tf.ViTForImageClassification(tf.ViTConfig(**SIZES, image_size=16, patch_size=8))


def t5():
    return tf.T5ForConditionalGeneration(
        tf.T5Config(vocab_size=64, d_model=32, d_kv=16, d_ff=48, num_layers=2, num_heads=2,
                    decoder_start_token_id=0)
    )  # fmt: skip


def mixtral():
    return tf.MixtralForCausalLM(tf.MixtralConfig(**GROUPED, num_local_experts=4))


#: Model, the layers of a block, and those outside of blocks.
FAMILIES = {
    "gpt2": (gpt2, ["attn.qkv", "attn.out", "mlp.up", "mlp.down"], ["head"]),
    "llama": (llama, LLAMA, ["head"]),
    "mistral": (lambda: tf.MistralForCausalLM(tf.MistralConfig(**GROUPED)), LLAMA, ["head"]),
    "qwen2": (lambda: tf.Qwen2ForCausalLM(tf.Qwen2Config(**GROUPED)), LLAMA, ["head"]),
    "qwen3": (lambda: tf.Qwen3ForCausalLM(tf.Qwen3Config(**GROUPED)), LLAMA, ["head"]),
    "gemma": (lambda: tf.GemmaForCausalLM(tf.GemmaConfig(**GROUPED)), LLAMA, ["head"]),
    "phi": (lambda: tf.PhiForCausalLM(tf.PhiConfig(**SPECIAL, **SIZES)), SEPARATE, ["head"]),
    "opt": (
        lambda: tf.OPTForCausalLM(
            tf.OPTConfig(**SPECIAL, hidden_size=32, ffn_dim=48, num_hidden_layers=2,
                         num_attention_heads=2, word_embed_proj_dim=32)
        ), SEPARATE, ["head"],
    ),
    "bert": (
        lambda: tf.BertForSequenceClassification(tf.BertConfig(vocab_size=64, **SIZES)), SEPARATE,
        ["head", "pooler"],
    ),
    "vit": (vit, SEPARATE, ["head"]),
    "mixtral": (mixtral, ["attn.q", "attn.k", "attn.v", "attn.out"], ["head"]),
}  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES)
def test_layers_have_the_names_of_recipes(family):
    make, inside, outside = FAMILIES[family]
    report = ngt.convert(make(), "nvfp4")
    names = sorted(row.layer for row in report)
    assert names == sorted(outside + [f"blocks.{n}.{part}" for n in range(2) for part in inside])
    is_said = "MixtralExperts has matrices that are no layers" in str(report)
    assert is_said == (family == "mixtral")


def test_blocks_of_a_decoder_follow_those_of_its_encoder():
    report = ngt.convert(t5(), "bf16")
    names = {row.module: row.layer for row in report}
    assert names["encoder.block.1.layer.1.DenseReluDense.wo"] == "blocks.1.mlp.down"
    assert names["decoder.block.0.layer.1.EncDecAttention.q"] == "blocks.2.cross.q"


def losses(model, batch, steps=6):
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    ngt.attach(model, optimizer)
    seen = []
    for _ in range(steps):
        loss = model(**batch).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        seen.append(loss.item())
    return seen


def tokens(rows=4):
    ids = torch.randint(2, 64, (rows, 16), generator=torch.Generator().manual_seed(1))
    return {"input_ids": ids, "labels": ids}


@pytest.mark.parametrize("recipe", ["mxfp4-sr-rht", "nvfp4-all", "fp8-delayed"])
@pytest.mark.parametrize("make", [gpt2, llama, mixtral, t5, vit])
def test_losses_fall(make, recipe):
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = make()
    ngt.convert(model, recipe)
    batch = tokens()
    if make is vit:
        images = torch.randn(4, 3, 16, 16, generator=torch.Generator().manual_seed(1))
        batch = {"pixel_values": images, "labels": torch.tensor([0, 1, 0, 1])}
    seen = losses(model, batch)
    assert seen[-1] < 0.95 * seen[0]


class Experts(nn.Module):
    """Two experts of which one gets no token."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.blocks = nn.ModuleList(
            nn.ModuleDict({"experts": nn.ModuleList(nn.Linear(32, 32) for _ in range(2))})
            for _ in range(2)
        )

    def forward(self, x):
        for block in self.blocks:
            first, second = block["experts"]
            x = x + torch.cat([first(x), second(x[:0])])
        return x


def test_experts_without_tokens():
    model = Experts()
    report = ngt.convert(model, "mxfp4-sr-rht")
    assert report.layers[1].layer == "blocks.0.experts.1"
    model(torch.randn(5, 32)).square().sum().backward()
    assert not model.blocks[0]["experts"][1].weight.grad.any()


def test_adapters_stand_on_converted_layers():
    peft = pytest.importorskip("peft")
    torch.manual_seed(0)
    model = llama()
    ngt.convert(model, "nvfp4-all")
    lora = peft.LoraConfig(target_modules=["q_proj", "v_proj"], r=4, init_lora_weights=False)
    wrapped = peft.get_peft_model(model, lora)
    base = wrapped.base_model.model.model.layers[0].self_attn.q_proj.base_layer
    assert isinstance(base, ngt.Linear)
    seen = losses(wrapped, tokens())
    assert seen[-1] < seen[0] and base.weight.grad is None


def test_the_trainer_of_transformers_goes_on(tmp_path):
    pytest.importorskip("accelerate")
    data = [{"input_ids": ids, "labels": ids} for ids in tokens(8)["input_ids"]]

    def trained(folder, steps, resume=None):
        torch.manual_seed(0)
        model = gpt2(attn_pdrop=0.0, resid_pdrop=0.0, embd_pdrop=0.0)
        ngt.convert(model, "mxfp4-sr-rht")
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        ngt.attach(model, optimizer)
        arguments = tf.TrainingArguments(
            output_dir=str(folder), max_steps=steps, per_device_train_batch_size=2,
            gradient_accumulation_steps=2, save_steps=10, report_to=[], use_cpu=True, seed=1,
            disable_tqdm=True, lr_scheduler_type="constant", logging_steps=1,
        )  # fmt: skip
        trainer = tf.Trainer(model, arguments, train_dataset=data, optimizers=(optimizer, None))
        trainer.train(resume_from_checkpoint=resume)
        return model, [row["loss"] for row in trainer.state.log_history if "loss" in row]

    whole, seen = trained(tmp_path / "whole", 20)
    assert seen[-1] < seen[0]
    assert ngt.describe(whole)["lm_head"]["step"] == 20
    again, _ = trained(tmp_path / "again", 20, resume=str(tmp_path / "whole" / "checkpoint-10"))
    for a, b in zip(whole.parameters(), again.parameters(), strict=True):
        assert torch.equal(a, b)
