#!/usr/bin/env python3
"""Makes qwen2_tiny and gpt2_tiny beside itself: PEFT's LoRA adapters over the models of those names
in ../models, with B not zero and all values BF16 numbers. `adapter_config.json` and
`adapter_model.safetensors` are as PEFT saves them; `reference.safetensors` has tokens, logits, loss
and the gradients of A and B by PyTorch in FP32 on a CPU, and some weights merged by PEFT. Needs
torch, transformers, peft, safetensors and numpy; run as `make_lora.py`, then correct
MANIFEST.json (sizes and sums are printed)."""

import hashlib
import json
import os

import numpy as np
import peft
import torch
import transformers
from safetensors.numpy import save_file

HERE = os.path.dirname(os.path.abspath(__file__))
BATCH, LENGTH = 2, 14
CASES = {
    "qwen2_tiny": dict(r=3, lora_alpha=6, target_modules=["q_proj", "v_proj", "o_proj", "up_proj",
                                                          "down_proj"]),
    "gpt2_tiny": dict(r=2, lora_alpha=5, target_modules=["attn.c_attn", "attn.c_proj"],
                      fan_in_fan_out=True),
}
MERGED = {"qwen2_tiny": "model.layers.1.mlp.down_proj.weight",
          "gpt2_tiny": "transformer.h.0.attn.c_attn.weight"}


def adapters(model):
    return {n.replace(".default", ""): p for n, p in model.named_parameters() if "lora_" in n}


def main():
    torch.set_num_threads(1)
    oracle = f"peft {peft.__version__} + transformers {transformers.__version__} + torch " + \
        torch.__version__.split("+")[0]
    for number, (name, settings) in enumerate(CASES.items()):
        rng = np.random.default_rng(2810 + number)
        base = transformers.AutoModelForCausalLM.from_pretrained(
            os.path.join(HERE, "..", "models", name), dtype=torch.float32,
            attn_implementation="eager")
        model = peft.get_peft_model(base, peft.LoraConfig(task_type="CAUSAL_LM", **settings))
        model.eval()
        with torch.no_grad():
            for p in adapters(model).values():
                drawn = torch.tensor(rng.standard_normal(p.shape) * 0.2)
                p.copy_(drawn.to(torch.bfloat16).to(p.dtype))
        folder = os.path.join(HERE, name)
        model.save_pretrained(folder)
        for extra in ("README.md",):
            if os.path.exists(os.path.join(folder, extra)):
                os.remove(os.path.join(folder, extra))
        config_path = os.path.join(folder, "adapter_config.json")
        config = json.load(open(config_path))
        config["base_model_name_or_path"] = name
        config["target_modules"].sort()
        json.dump(config, open(config_path, "w"), indent=2, sort_keys=True)
        vocab = base.config.vocab_size
        tokens = torch.tensor(rng.integers(0, vocab, (1, BATCH, LENGTH + 1)), dtype=torch.int32)
        logits = model(tokens[0, :, :-1].long()).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1),
                                                 tokens[0, :, 1:].long().flatten())
        loss.backward()
        tensors = {"tokens": tokens.numpy(), "logits": logits.detach().numpy(),
                   "loss": np.float32([loss.item()])}
        for key, p in adapters(model).items():
            tensors["grad." + key] = p.grad.numpy()
        merged = model.merge_and_unload().state_dict()
        tensors["merged." + MERGED[name]] = merged[MERGED[name]].numpy()
        note = f"LoRA over {name}: logits, loss, gradients of A and B, a merged weight. Oracle: {oracle}."
        save_file({k: np.ascontiguousarray(v) for k, v in tensors.items()},
                  os.path.join(folder, "reference.safetensors"),
                  {"schema": "narrowgauge-golden-1", "note": note, "cases": "{}"})
        print(name, loss.item())
        for file in sorted(os.listdir(folder)):
            data = open(os.path.join(folder, file), "rb").read()
            print(" ", file, len(data), hashlib.sha256(data).hexdigest())


if __name__ == "__main__":
    main()
