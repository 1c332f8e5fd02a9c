#!/usr/bin/env python3
"""Makes the folders of CASES beside itself: adapters over ../models as PEFT saves them, with what
there is beside A and B: other ranks and alphas by pattern, rsLoRA, DoRA, biases, modules saved whole,
adapters of the embedding and the head. All values are BF16 numbers, none of them 0.
`reference.safetensors` has tokens, the logits of base and adapters beside each other by PyTorch in
FP32 on a CPU, and `merged.<name>` by PEFT of what changes in the blocks. Needs torch, transformers,
peft, safetensors and numpy; run as `make_variants.py`, then correct MANIFEST.json (sizes and sums are
printed)."""

import hashlib
import json
import os

import numpy as np
import peft
import torch
import transformers
from safetensors.numpy import save_file
from safetensors.torch import load_file

HERE = os.path.dirname(os.path.abspath(__file__))
BATCH, LENGTH = 2, 14
CASES = {
    # Patterns of every form, sorted as PEFT saves them; the first that matches counts.
    "dora": ("qwen2_tiny", dict(
        r=2, lora_alpha=3, target_modules="all-linear", use_dora=True, use_rslora=True,
        rank_pattern={r"^model\.layers\.1\..*": 1, "layers.0.mlp.(up|down)_proj": 4, "q_proj": 3},
        alpha_pattern={"layers.0.self_attn.v_proj": 5, "proj": 9, "self_attn.[vo]_proj": 2})),
    "dora_conv1d": ("gpt2_tiny", dict(
        r=2, lora_alpha=5, target_modules=["attn.c_attn"], layers_to_transform=[0], use_dora=True,
        fan_in_fan_out=True, modules_to_save=["ln_1", "attn.c_proj"])),
    "saved": ("qwen2_tiny", dict(
        r=2, lora_alpha=4, target_modules=["q_proj"], layers_to_transform=[1],
        modules_to_save=["embed_tokens", "layernorm"])),
    "biases": ("qwen2_tiny", dict(
        r=2, lora_alpha=4, target_modules=r".*\.[qkv]_proj", exclude_modules=["layers.1.self_attn.k_proj"],
        bias="lora_only", lora_bias=True)),
    "tables": ("qwen2_tiny", dict(
        r=2, lora_alpha=3, target_modules=["embed_tokens", "lm_head", "v_proj"], use_dora=True)),
}


def drawn(rng, parameter, scale, around=0.0):
    values = torch.tensor(around + scale * rng.standard_normal(parameter.shape))
    return values.to(torch.bfloat16).to(parameter.dtype)


def fill(model, rng):
    """Gives what the folder will hold values that training could have left there."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "lora_magnitude" in name:
                p.copy_((p * (1 + 0.2 * torch.tensor(rng.standard_normal(p.shape)))).to(torch.bfloat16))
            elif "lora_" in name or "modules_to_save" in name:
                around = 1.0 if "norm" in name or "ln_1.modules" in name and "weight" in name else 0.0
                p.copy_(drawn(rng, p, 0.2, around))
            elif p.requires_grad:  # biases
                p.copy_(drawn(rng, p, 0.2))


def make(name, base_name, settings, rng):
    base_path = os.path.join(HERE, "..", "models", base_name)
    load = lambda: transformers.AutoModelForCausalLM.from_pretrained(  # noqa: E731
        base_path, dtype=torch.float32, attn_implementation="eager")
    model = peft.get_peft_model(load(), peft.LoraConfig(task_type="CAUSAL_LM", **settings))
    fill(model, rng)
    folder = os.path.join(HERE, name)
    model.save_pretrained(folder)
    if os.path.exists(os.path.join(folder, "README.md")):
        os.remove(os.path.join(folder, "README.md"))
    model = peft.PeftModel.from_pretrained(load(), folder).eval()  # what a reader makes of it
    config_path = os.path.join(folder, "adapter_config.json")
    config = json.load(open(config_path))
    config["base_model_name_or_path"] = f"org/{base_name}"  # as of a hub
    for key in ("target_modules", "exclude_modules"):
        if isinstance(config[key], list):
            config[key].sort()
    json.dump(config, open(config_path, "w"), indent=2, sort_keys=True)
    tokens = torch.tensor(rng.integers(0, model.config.vocab_size, (1, BATCH, LENGTH + 1)),
                          dtype=torch.int32)
    with torch.no_grad():
        logits = model(tokens[0, :, :-1].long()).logits
    tensors = {"tokens": tokens.numpy(), "logits": logits.numpy()}
    before = load().state_dict()
    for key, value in model.merge_and_unload().state_dict().items():
        in_block = ".layers." in key or ".h." in key
        if in_block and not torch.equal(before[key], value):
            tensors["merged." + key] = value.numpy()
    oracle = f"peft {peft.__version__} + transformers {transformers.__version__} + torch " + \
        torch.__version__.split("+")[0]
    note = f"Adapters over {base_name}: logits, merged weights of blocks. Oracle: {oracle}."
    save_file({k: np.ascontiguousarray(v) for k, v in tensors.items()},
              os.path.join(folder, "reference.safetensors"),
              {"schema": "narrowgauge-golden-1", "note": note, "cases": "{}"})
    for file in sorted(os.listdir(folder)):
        path = os.path.join(folder, file)
        row = {"bytes": os.path.getsize(path),
               "sha256": hashlib.sha256(open(path, "rb").read()).hexdigest()}
        if file == "reference.safetensors":
            row["note"] = note
        if file.endswith(".safetensors"):
            row["tensors"] = len(load_file(path))
        yield f"lora/{name}/{file}", row


def main():
    torch.set_num_threads(1)
    rows = {}
    for number, (name, (base, settings)) in enumerate(CASES.items()):
        rows |= make(name, base, settings, np.random.default_rng(2820 + number))
    print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
