"""narrowgauge.torch in models of others: what their layers are called, and that they learn."""

from __future__ import annotations

import os

import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # before transformers is there
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
import narrowgauge.torch as ngt  # noqa: E402: needs torch
from torch import nn  # noqa: E402

RECIPES = ["fp8-current", "mxfp4-sr-rht", "nvfp4-all"]

SIZES = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
         "num_attention_heads": 2, "max_position_embeddings": 64, "pad_token_id": 0,
         "bos_token_id": 1, "eos_token_id": 2}  # fmt: skip
VIT = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
       "num_attention_heads": 2, "image_size": 16, "patch_size": 8}  # fmt: skip
T5 = {"vocab_size": 64, "d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 2, "num_heads": 2,
      "decoder_start_token_id": 0}  # fmt: skip
MOE = {"num_key_value_heads": 2, "num_local_experts": 4, **SIZES}
IDS = torch.randint(3, 64, (2, 16), generator=torch.Generator().manual_seed(0))
TEXT = {"input_ids": IDS, "labels": IDS}
PICTURES = {"pixel_values": torch.randn(4, 3, 16, 16, generator=torch.Generator().manual_seed(0)),
            "labels": torch.tensor([0, 1, 0, 1])}  # fmt: skip

ATTENTION = ["attn.q", "attn.k", "attn.v", "attn.out"]
GATED = [*ATTENTION, "mlp.gate", "mlp.up", "mlp.down"]
PLAIN = [*ATTENTION, "mlp.up", "mlp.down"]
CROSS = ["cross.q", "cross.k", "cross.v", "cross.out"]


def causal(kind, **sizes):
    return lambda: transformers.AutoModelForCausalLM.from_config(
        getattr(transformers, f"{kind}Config")(**sizes)
    )


def of(model, kind, **sizes):
    return lambda: getattr(transformers, model)(getattr(transformers, f"{kind}Config")(**sizes))


def in_blocks(*blocks):
    return {f"blocks.{number}.{kind}" for number, kinds in enumerate(blocks) for kind in kinds}


def alike(kinds, *others):
    """Two blocks of the same kinds."""
    return in_blocks(kinds, kinds) | set(others)


FUSED = ["attn.qkv", "attn.out", "mlp.up", "mlp.down"]
KEYS = {"num_key_value_heads": 2, **SIZES}
MODELS = {
    "gpt2": (causal("GPT2", vocab_size=64, n_embd=32, n_layer=2, n_head=2, n_positions=64,
                    bos_token_id=1, eos_token_id=2), TEXT, alike(FUSED, "head")),
    "llama": (causal("Llama", **KEYS), TEXT, alike(GATED, "head")),
    "mistral": (causal("Mistral", **KEYS), TEXT, alike(GATED, "head")),
    "qwen2": (causal("Qwen2", **KEYS), TEXT, alike(GATED, "head")),
    "qwen3": (causal("Qwen3", head_dim=16, **KEYS), TEXT, alike(GATED, "head")),
    "gemma": (causal("Gemma", head_dim=16, **KEYS), TEXT, alike(GATED, "head")),
    "phi": (causal("Phi", **KEYS), TEXT, alike(PLAIN, "head")),
    "phi3": (causal("Phi3", **KEYS), TEXT, alike(FUSED, "head")),
    "opt": (causal("OPT", vocab_size=64, hidden_size=32, ffn_dim=64, num_hidden_layers=2,
                   num_attention_heads=2, max_position_embeddings=64, word_embed_proj_dim=16),
            TEXT, alike(PLAIN, "head", "project_in", "project_out")),
    "bert": (of("BertForMaskedLM", "Bert", **SIZES), TEXT, alike(PLAIN, "transform", "head")),
    "bert-classes": (of("BertForSequenceClassification", "Bert", **SIZES),
                     {"input_ids": IDS, "labels": torch.tensor([0, 1])},
                     alike(PLAIN, "pooler", "head")),
    "llama-score": (of("LlamaForSequenceClassification", "Llama", **KEYS),
                    {"input_ids": IDS, "labels": torch.tensor([0, 1])}, alike(GATED, "head")),
    "bert-answers": (of("BertForQuestionAnswering", "Bert", **SIZES),
                     {"input_ids": IDS, "start_positions": torch.tensor([0, 1]),
                      "end_positions": torch.tensor([3, 4])}, alike(PLAIN, "head")),
    "bert-pretraining": (of("BertForPreTraining", "Bert", **SIZES),
                         {**TEXT, "next_sentence_label": torch.tensor([0, 1])},
                         alike(PLAIN, "transform", "pooler", "head")),
    "vit": (of("ViTForImageClassification", "ViT", **VIT), PICTURES, alike(PLAIN, "head")),
    "t5": (of("T5ForConditionalGeneration", "T5", **T5), TEXT,
           in_blocks(PLAIN, PLAIN, [*PLAIN, *CROSS], [*PLAIN, *CROSS]) | {"head"}),
    "t5-gated": (of("T5ForConditionalGeneration", "T5", feed_forward_proj="gated-gelu", **T5),
                 TEXT, in_blocks(GATED, GATED, [*GATED, *CROSS], [*GATED, *CROSS]) | {"head"}),
    "mixtral": (causal("Mixtral", **MOE), TEXT, alike(ATTENTION, "head")),
}  # fmt: skip


def learned(model, batch, steps=12, lr=5e-3):
    """The first loss and the last of a few steps on one batch."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    ngt.attach(model, optimizer)
    model.train()
    losses = []
    for _ in range(steps):
        loss = model(**batch).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses[0], losses[-1]


@pytest.fixture(autouse=True)
def _one_thread():
    torch.set_num_threads(1)
    torch.manual_seed(0)


@pytest.mark.parametrize("name", MODELS)
def test_families_have_their_names_and_learn(name):
    make, batch, names = MODELS[name]
    for recipe in RECIPES:
        torch.manual_seed(0)
        model = make()
        linears = sum(type(m).__name__ in ("Linear", "Conv1D") for m in model.modules())
        report = ngt.convert(model, recipe)
        assert {row.layer for row in report} == names and len(report) == linears
        first, last = learned(model, batch)
        assert last < 0.9 * first, recipe


def test_experts_in_one_tensor_are_said():
    model = MODELS["mixtral"][0]()
    warning, *_ = ngt.convert(model, "mxfp4-all").warnings
    experts = "model.layers.*.mlp.experts: MixtralExperts multiplies by gate_up_proj"
    assert warning.startswith(experts)


class Experts(nn.Module):
    """A block whose tokens go to the best of its experts."""

    def __init__(self, width: int, count: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width, count, bias=False)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 64), nn.GELU(), nn.Linear(64, width))
            for _ in range(count)
        )

    def forward(self, x):
        probabilities = self.gate(x).softmax(-1)
        best = probabilities.argmax(-1)
        y = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            mine = (best == number).nonzero()[:, 0]
            y = y.index_add(0, mine, expert(x[mine]) * probabilities[mine, number, None])
        return x + y


@pytest.mark.parametrize("recipe", RECIPES)
def test_experts_in_a_list_may_get_no_tokens(recipe):
    model = nn.ModuleDict({"blocks": nn.ModuleList(Experts(32, 4) for _ in range(2))})
    model.forward = lambda x: model["blocks"][1](model["blocks"][0](x))
    report = ngt.convert(model, recipe)
    assert {"blocks.0.gate", "blocks.1.experts.3.2"} <= {row.layer for row in report}
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    ngt.attach(model, optimizer)
    x = torch.randn(2, 32)  # fewer tokens than experts
    losses = []
    for _ in range(10):
        loss = (model(x) - x.flip(1)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        empty = [e for e in model["blocks"][0].experts if not e[0].weight.grad.any()]
        assert len(empty) >= 2 and all(torch.isfinite(p.grad).all() for p in model.parameters())
        optimizer.zero_grad()
    assert losses[-1] < 0.9 * losses[0]


class ImageBlock(nn.Module):
    """A block of a ViT as timm writes it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = nn.ModuleDict(
            {"qkv": nn.Linear(width, 3 * width), "proj": nn.Linear(width, width)}
        )
        self.mlp = nn.ModuleDict({"fc1": nn.Linear(width, 64), "fc2": nn.Linear(64, width)})

    def forward(self, x):
        q, k, v = self.attn["qkv"](self.norm1(x)).chunk(3, -1)
        x = x + self.attn["proj"](nn.functional.scaled_dot_product_attention(q, k, v))
        return x + self.mlp["fc2"](nn.functional.gelu(self.mlp["fc1"](self.norm2(x))))


class ImageModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patch_embed = nn.Conv2d(3, 32, 8, 8)
        self.blocks = nn.Sequential(*(ImageBlock(32) for _ in range(2)))
        self.head = nn.Linear(32, 2)

    def forward(self, pixel_values, labels):
        x = self.patch_embed(pixel_values).flatten(2).transpose(1, 2)
        y = self.head(self.blocks(x).mean(1))
        return transformers.utils.ModelOutput(loss=nn.functional.cross_entropy(y, labels))


@pytest.mark.parametrize("recipe", RECIPES)
def test_images_as_timm_sees_them(recipe):
    model = ImageModel()
    assert {row.layer for row in ngt.convert(model, recipe)} == alike(FUSED, "head")
    first, last = learned(model, PICTURES)
    assert last < 0.9 * first


def adapted(model):
    peft = pytest.importorskip("peft")
    config = peft.LoraConfig(r=4, target_modules=["q_proj", "down_proj"], task_type="CAUSAL_LM",
                             modules_to_save=["lm_head"])  # fmt: skip
    return peft.get_peft_model(model, config)


@pytest.mark.parametrize("recipe", RECIPES)
def test_adapters_over_converted_layers(recipe):
    model = MODELS["llama"][0]()
    ngt.convert(model, recipe)
    model = adapted(model)
    before = {n: p.clone() for n, p in model.named_parameters() if not p.requires_grad}
    first, last = learned(model, TEXT, lr=2e-2)
    assert last < first
    assert all(torch.equal(before[n], p) for n, p in model.named_parameters() if n in before)
    assert {row["layer"] for row in ngt.describe(model).values()} == alike(GATED, "head")
    merged = model.merge_and_unload()
    assert isinstance(merged.model.layers[0].mlp.down_proj, ngt.Linear)


def test_a_model_of_peft_is_converted():
    model = adapted(MODELS["llama"][0]())
    report = ngt.convert(model, "mxfp4-sr-rht")
    assert {row.layer for row in report} == alike(GATED, "head")
    assert all(".lora_" in name for name in report.skipped) and len(report.skipped) == 8
    assert str(report).count("lora_A") == 2
    first, last = learned(model, TEXT, lr=2e-2)
    assert last < first


class Records(torch.utils.data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return {"input_ids": IDS[index % 2], "labels": IDS[index % 2]}


def test_the_trainer_of_transformers_resumes(tmp_path):
    pytest.importorskip("accelerate")

    def trainer(folder, steps):
        torch.manual_seed(0)
        model = MODELS["llama"][0]()
        ngt.convert(model, "mxfp4-sr-rht")
        optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
        ngt.attach(model, optimizer)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _: 1.0)
        return transformers.Trainer(
            model,
            transformers.TrainingArguments(
                output_dir=str(folder), max_steps=steps, per_device_train_batch_size=2,
                gradient_accumulation_steps=2, save_steps=10, logging_steps=10, use_cpu=True,
                report_to=[], disable_tqdm=True, seed=1,
            ),
            train_dataset=Records(), optimizers=(optimizer, schedule),
        )  # fmt: skip

    whole = trainer(tmp_path / "a", 20)
    whole.train()
    losses = [row["loss"] for row in whole.state.log_history if "loss" in row]
    assert losses[-1] < 0.7 * losses[0]
    again = trainer(tmp_path / "a", 20)
    again.train(resume_from_checkpoint=str(tmp_path / "a" / "checkpoint-10"))
    assert ngt.describe(again.model)["lm_head"]["step"] == 20
    for a, b in zip(whole.model.parameters(), again.model.parameters(), strict=True):
        assert torch.equal(a, b)


def test_a_loop_as_lightning_has_it():
    """Which steps by a closure, and calls the model within a module of its own."""

    class Module(nn.Module):
        def __init__(self, model):
            super().__init__()
            self.model = model

        def training_step(self, batch):
            return self.model(**batch).loss

    module = Module(MODELS["gpt2"][0]())
    ngt.convert(module, "nvfp4-all")
    optimizer = torch.optim.AdamW(module.parameters(), lr=5e-3)
    ngt.attach(module, optimizer)
    losses = []

    def closure():
        optimizer.zero_grad()
        loss = module.training_step(TEXT)
        loss.backward()
        losses.append(loss.item())
        return loss

    for _ in range(8):
        optimizer.step(closure)
    assert losses[-1] < 0.9 * losses[0]
    assert ngt.describe(module)["model.lm_head"]["step"] == 8
