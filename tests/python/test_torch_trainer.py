"""Models of transformers that the trainer has too: same losses, same draws, same checkpoints."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from conftest import tensors

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # before transformers is there
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
import narrowgauge as ng  # noqa: E402
import narrowgauge.torch as ngt  # noqa: E402: needs torch

#: One window of text, which every sequence of every batch is.
TEXT = "the narrow gauge goes over hills."
RUN = """\
recipe = "{recipe}"
seed = 3
[model]
architecture = "{architecture}"
layers = 2
heads = 2
width = 64
ffn = 128
context = 32
[data]
train = "text.txt"
validation = "text.txt"
[train]
steps = {steps}
batch = 2
lr = 0.003
warmup = 2
clip = 1000.0
checkpoint_every = 1
keep_checkpoints = 30
validate_every = 20
"""


@pytest.fixture
def trained(program, tmp_path, monkeypatch):
    """Trains by the program; returns the run's folder."""
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text(TEXT)

    def train(recipe: str, steps: int, architecture: str = "llama") -> Path:
        Path("run.toml").write_text(
            RUN.format(recipe=recipe, steps=steps, architecture=architecture)
        )
        program("train", "run.toml", "--out", Path(recipe).stem)
        return Path(Path(recipe).stem)

    return train


def model_of(run: Path):
    return transformers.AutoModelForCausalLM.from_pretrained(
        run / "model", torch_dtype=torch.float32
    )


def in_recipe(run: Path, recipe: str, **words):
    """A model of the run's sizes with other values, and its optimizer."""
    torch.manual_seed(1)
    model = transformers.AutoModelForCausalLM.from_config(model_of(run).config).train()
    ngt.convert(model, recipe, seed=3, **words)
    return model, ngt.optimizer(model, recipe, lr=0.003)


def losses_of(run: Path) -> dict[int, dict]:
    lines = (json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines())
    return {line["step"]: line for line in lines if "loss" in line}


def batch_of(run: Path):
    ids = ng.Model(run / "model").tokenizer.encode(TEXT)
    return torch.tensor([list(ids)] * 2)


def step(model, optimizer, ids, lr: float) -> float:
    logits = model(input_ids=ids[:, :-1]).logits
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
    loss.backward()
    for group in optimizer.param_groups:
        group["lr"] = lr
    optimizer.step()
    optimizer.zero_grad()
    return loss.item()


@pytest.mark.parametrize("architecture", ["llama", "gpt2"])
def test_twenty_steps_in_fp32_have_the_losses_of_the_trainer(trained, architecture):
    run = trained("fp32", 20, architecture)
    model, optimizer = in_recipe(run, "fp32")
    assert ngt.load_checkpoint(run / "checkpoints" / "step-00000001", model, optimizer) == 1
    lines, ids = losses_of(run), batch_of(run)
    for number in range(2, 21):
        line = lines[number]
        assert step(model, optimizer, ids, line["lr"]) == pytest.approx(line["loss"], abs=1e-5)


@pytest.mark.parametrize(
    "recipe", ["mxfp4-all", "fp8-lm", "fp8-delayed", "gaussws-all", "nipq", "residual-fp8", "muon",
               "adam-mini", "nvfp4"]
)  # fmt: skip
def test_a_checkpoint_of_the_trainer_goes_in_and_out(trained, recipe):
    run = trained(recipe, 2)
    saved = run / "checkpoints" / "step-00000002"
    before = {of.name: of.read_bytes() for of in saved.iterdir()}
    model, optimizer = in_recipe(run, recipe)
    assert ngt.load_checkpoint(run, model, optimizer) == 2
    shutil.rmtree(run / "model")
    assert ngt.save_checkpoint(run, model, optimizer) == str(saved)
    assert {of.name: of.read_bytes() for of in saved.iterdir()} == before


def test_the_trainer_goes_on_from_steps_of_torch(trained, program):
    run = trained("fp8-lm", 2)
    model, optimizer = in_recipe(run, "fp8-lm")
    ngt.load_checkpoint(run, model, optimizer)
    step(model, optimizer, batch_of(run), 1e-3)
    ngt.save_checkpoint(run, model, optimizer)
    shutil.rmtree(run / "model")
    program("train", "run.toml", "--out", run, "--resume", "--set", "train.steps=5")
    assert max(losses_of(run)) == 5


@pytest.mark.parametrize("recipe", ["mxfp4-all", "mxfp4-sr-rht", "nvfp4", "fp8-current"])
@pytest.mark.parametrize("architecture", ["llama", "gpt2"])
def test_layers_have_the_bits_of_the_trainer(trained, program, recipe, architecture):
    """Gradients of a real batch, which its draws are in: of the third step, number 2."""
    run = trained(recipe, 3, architecture)
    program("capture", run, "--step", 2, "--layers", "blocks.*", "all.safetensors")
    of = {name: torch.tensor(value) for name, value in tensors(Path("all.safetensors")).items()}
    model, _ = in_recipe(run, recipe, step=2)
    rows = {name: row for name, row in ngt.describe(model).items() if row["layer"] != "head"}
    assert len(rows) >= 8
    for name, row in rows.items():
        layer = model.get_submodule(name)
        weight = of[f"{row['layer']}.weight"]
        turned = layer.weight.shape != weight.shape or type(layer).__name__ == "Conv1D"
        layer.weight.data = weight.t().contiguous() if turned else weight
        layer.bias = None if layer.bias is None else torch.nn.Parameter(layer.bias.data * 0)
        x = of[f"{row['layer']}.x"].bfloat16().requires_grad_()
        layer(x).backward(of[f"{row['layer']}.dy"].bfloat16())
        dw = layer.weight.grad.t() if turned else layer.weight.grad
        assert torch.equal(dw.float(), of[f"{row['layer']}.dw"]), name
        assert torch.equal(x.grad.float(), of[f"{row['layer']}.dx"].bfloat16().float()), name


def test_save_and_load_keep_every_bit_in_any_process(tmp_path):
    config = transformers.GPT2Config(vocab_size=64, n_embd=64, n_layer=2, n_head=2, n_positions=32,
                                     bos_token_id=1, eos_token_id=2)  # fmt: skip
    ids = torch.randint(0, 64, (2, 17), generator=torch.Generator().manual_seed(0))

    def made():
        torch.manual_seed(0)
        model = transformers.GPT2LMHeadModel(config).eval()
        ngt.convert(model, "fp8-lm")
        return model.train().requires_grad_(True), None

    model, _ = made()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    optimizer = ngt.optimizer(model, "fp8-lm")
    for _ in range(2):
        step(model, optimizer, ids, 1e-3)
    ngt.save_checkpoint(tmp_path / "run", model, optimizer)
    state, steps = model.state_dict(), optimizer.state_dict()
    first = {name: value.clone() for name, value in state.items()}
    step(model, optimizer, ids, 1e-3)
    assert ngt.load_checkpoint(tmp_path / "run", model, optimizer) == 2
    assert all(torch.equal(first[name], value) for name, value in model.state_dict().items())
    again = optimizer.state_dict()
    for number, saved in steps["state"].items():
        assert all(torch.equal(saved[key], again["state"][number][key]) for key in saved)


def test_what_is_not_its_own_is_refused(trained, program):
    run = trained("fp8-lm", 2)
    model, optimizer = in_recipe(run, "fp8-lm")
    before = {name: value.clone() for name, value in model.state_dict().items()}

    def refused(words: str, folder=run, of=None):
        with pytest.raises(ng.Error, match=words):
            ngt.load_checkpoint(folder, *(of or (model, optimizer)))

    refused("has no checkpoint", run / "nowhere")
    refused("has no checkpoint", run.parent)
    refused("fp8-lm", of=in_recipe(run, "bf16"))
    refused("narrowgauge.torch.optimizer", of=(model, torch.optim.AdamW(model.parameters())))
    seeded, optimizer_of_seeded = in_recipe(run, "fp8-lm")
    ngt.convert(seeded, "fp8-lm", seed=4)
    refused(r"seed: 3, but the model draws by 4: convert\(..., seed=3\)",
            of=(seeded, optimizer_of_seeded))
    other, optimizer_of_other = in_recipe(run, "fp8-lm", step=1)
    with pytest.raises(ng.Error, match="later step"):
        ngt.save_checkpoint(run, other, optimizer_of_other)
    with pytest.raises(ng.Error, match="keep"):
        ngt.save_checkpoint(run, model, optimizer, keep=0)
    program("train", "run.toml", "--out", "twin", "--set", "twin=1")
    own = "twin: 1, but the model draws by its seed alone: a run without twin"
    refused(own, "twin")
    with pytest.raises(ng.Error, match=own):
        ngt.save_checkpoint("twin", *in_recipe(run, "fp8-lm", step=2))
    state = run / "checkpoints" / "step-00000002" / "state.safetensors"
    shutil.rmtree(run / "checkpoints" / "step-00000001")
    state.write_bytes(state.read_bytes()[:-1])
    refused("has no checkpoint|state.safetensors")
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


@pytest.mark.parametrize("counts", [False, True])
def test_auto_scales_of_gradients_are_in_checkpoints(trained, monkeypatch, counts):
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    dist = torch.distributed
    recipe = "counts.toml" if counts else "fp8-lm"
    Path("counts.toml").write_text(  # every step is good
        'inherit = "fp8-lm"\n[gradient]\nauto_scale_delta = 0.5\nauto_scale_growth_after = 3\n'
    )
    run = trained(recipe, 2)
    saved = run / "checkpoints" / "step-00000002"
    before = {of.name: of.read_bytes() for of in saved.iterdir()}
    model, optimizer = in_recipe(run, recipe)
    shutil.rmtree(run / "model")
    dist.init_process_group("gloo", init_method=f"file://{run.absolute()}.ranks", rank=0,
                            world_size=1)  # fmt: skip
    try:
        hook = ngt.gradient_hook(torch.nn.parallel.DistributedDataParallel(model), recipe)
        ngt.load_checkpoint(run, model, optimizer, hook=hook)
        state = hook.state_dict()
        assert state["step"] == 2 and state["scales"]
        for k, good in state["scales"].values():
            assert (k == 0, good) == ((True, 2.0) if counts else (False, 0.0))
        ngt.save_checkpoint(run, model, optimizer, hook=hook)
        assert {of.name: of.read_bytes() for of in saved.iterdir()} == before
        moved = {**state, "scales": {tensor: (-7.0 - tensor, 1.0) for tensor in state["scales"]}}
        if not counts:
            moved["scales"] = {tensor: (k, 0.0) for tensor, (k, _) in moved["scales"].items()}
        hook.load_state_dict(moved)
        ngt.save_checkpoint(run, model, optimizer, hook=hook)
        hook.load_state_dict(state)
        ngt.load_checkpoint(run, model, optimizer, hook=hook)
        assert hook.state_dict() == moved
        other = ngt.gradient_hook(torch.nn.parallel.DistributedDataParallel(model), "bf16")
        with pytest.raises(ng.Error, match="^hook: has no auto scales of .*'s weights"):
            ngt.save_checkpoint(run, model, optimizer, hook=other)
    finally:
        dist.destroy_process_group()


def test_exports_are_those_of_the_trainers_model(trained, tmp_path):
    run = trained("mxfp4-all", 2)
    model, own = model_of(run), ng.Model(run / "model")
    ngt.convert(model, "mxfp4-all")
    tokenizer = run / "model"
    named = Path("mxfp4-all.gguf")  # as the run, whose name the file has
    for type, weights in (("f32", None), ("q8_0", None), ("mxfp4", "trained")):
        ngt.export(model, named, type=type, weights=weights or "values", tokenizer=tokenizer)
        here = named.read_bytes()
        own.export(named, type, weights=weights)
        assert here == named.read_bytes()
    ngt.export(model, "here", to="hf", type="nvfp4", tokenizer=tokenizer)
    own.export("there", "nvfp4", to="hf")
    weights = [Path(folder, "model.safetensors").read_bytes() for folder in ("here", "there")]
    assert weights[0] == weights[1]
    assert sorted(os.listdir("here")) == sorted(os.listdir("there"))


def test_exports_refuse_what_no_program_takes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    vit = transformers.ViTForImageClassification(
        transformers.ViTConfig(hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
                               intermediate_size=64, image_size=16, patch_size=8)
    )  # fmt: skip
    for model, words in ((vit, "vit"), (torch.nn.Linear(4, 4), "Linear")):
        with pytest.raises(ng.Error, match=words):
            ngt.export(model, "out", to="hf")
    with pytest.raises(ng.Error, match="weights"):
        ngt.export(vit, "out", to="hf", weights="best")
    with pytest.raises(ng.Error, match="no layer is converted"):
        ngt.export(vit, "out", to="hf", weights="trained")
    assert os.listdir(".") == []
