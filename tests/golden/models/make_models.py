#!/usr/bin/env python3
"""Makes mistral_tiny, qwen2_tiny, qwen3_tiny and llama3_tiny, and mistral_window_tiny and
qwen2_window_tiny, whose attention has windows, beside itself: random models of transformers whose
weights are BF16 numbers, and what PyTorch computes with them on a CPU: logits, loss, every gradient,
three steps of AdamW and greedy text. `reference.safetensors` has the names of the older folders
here. Needs torch, transformers, safetensors and numpy; run as `make_models.py [NAME ...]`, all
unless named, then correct MANIFEST.json (sizes and sums are printed)."""

import copy
import hashlib
import json
import os
import sys

import numpy as np
import torch
import transformers
from safetensors.numpy import save_file

HERE = os.path.dirname(os.path.abspath(__file__))
STEPS, BATCH, LENGTH, PROMPTS, PROMPT, NEW = 3, 2, 20, 2, 6, 10
LR, BETAS, EPS, DECAY, CLIP = 1e-3, (0.9, 0.95), 1e-8, 0.1, 1.0
SIZES = dict(vocab_size=48, hidden_size=16, intermediate_size=24, num_hidden_layers=2,
             num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
             rms_norm_eps=1e-5, bos_token_id=None, eos_token_id=None, pad_token_id=None)


def configs():
    t = transformers
    # Wave lengths of 6.3, 20, 63 and 199 tokens: one above low_freq, one below high_freq, two between.
    llama3 = dict(rope_type="llama3", rope_theta=100.0, factor=8.0, low_freq_factor=1.0,
                  high_freq_factor=4.0, original_max_position_embeddings=64)
    sizes = SIZES | dict(max_position_embeddings=128)
    yield "llama3_tiny", t.LlamaConfig(**sizes, head_dim=8, rope_parameters=llama3,
                                       tie_word_embeddings=True)
    yield "mistral_tiny", t.MistralConfig(**SIZES, head_dim=8, sliding_window=None)
    yield "qwen2_tiny", t.Qwen2Config(**SIZES, tie_word_embeddings=True)
    yield "qwen3_tiny", t.Qwen3Config(**SIZES, head_dim=8, tie_word_embeddings=False)
    # Windows of 4 of 20 tokens, in both layers and in the second.
    sizes = SIZES | dict(max_position_embeddings=32)
    yield "mistral_window_tiny", t.MistralConfig(**sizes, head_dim=8, sliding_window=4)
    yield "qwen2_window_tiny", t.Qwen2Config(**sizes, tie_word_embeddings=True, sliding_window=4,
                                             use_sliding_window=True, max_window_layers=1)


def draw(model, rng):
    """Weights of a size at which logits tell models apart; all of them BF16 numbers."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            values = rng.standard_normal(p.shape) * (0.15 if p.dim() == 2 else 0.3)
            if name.endswith("norm.weight"):
                values += 1.0
            p.copy_(torch.tensor(values).to(torch.bfloat16).to(p.dtype))


def loss_of(model, tokens):
    inputs, targets = tokens[:, :-1].long(), tokens[:, 1:].long()
    logits = model(inputs).logits
    return logits, torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def groups(model):
    matrices = [p for p in model.parameters() if p.dim() == 2]
    vectors = [p for p in model.parameters() if p.dim() != 2]
    return [{"params": matrices, "weight_decay": DECAY}, {"params": vectors, "weight_decay": 0.0}]


def train(model, tokens):
    """Losses, gradient norms, gradients of the first step and, of each step, weights and the
    clipped gradients."""
    out = {"loss": [], "norm": [], "grad": {}, "weights": [], "clipped": []}
    optimizer = torch.optim.AdamW(groups(model), lr=LR, betas=BETAS, eps=EPS)
    for step in range(STEPS):
        optimizer.zero_grad()
        logits, loss = loss_of(model, tokens[step])
        loss.backward()
        if step == 0:
            out["logits"] = logits.detach().clone()
            out["grad"] = {n: p.grad.clone() for n, p in model.named_parameters()}
        norm = torch.sqrt(sum((p.grad.double() ** 2).sum() for p in model.parameters()))
        factor = min(1.0, CLIP / (float(norm) + 1e-6))
        for p in model.parameters():
            p.grad.mul_(factor)
        out["loss"].append(loss.item())
        out["norm"].append(float(norm))
        out["clipped"].append({n: p.grad.clone() for n, p in model.named_parameters()})
        optimizer.step()
        out["weights"].append({n: p.detach().clone() for n, p in model.named_parameters()})
    return out


def greedy(model, prompts):
    tokens, margins = prompts.clone(), []
    with torch.no_grad():
        for _ in range(NEW):
            last = model(tokens.long()).logits[:, -1]
            best = last.topk(2).values
            margins.append(best[:, 0] - best[:, 1])
            tokens = torch.cat([tokens, last.argmax(-1, keepdim=True).to(tokens.dtype)], 1)
    return tokens, torch.stack(margins, 1)


def reference(name, model, rng):
    torch_name = f"torch {torch.__version__.split('+')[0]}"
    both = f"transformers {transformers.__version__} + {torch_name}"
    tensors, notes = {}, {}

    def add(key, value, desc, oracle=both):
        value = value.numpy() if isinstance(value, torch.Tensor) else np.asarray(value)
        tensors[key] = np.ascontiguousarray(value)
        notes[key] = {"desc": desc, "oracle": oracle, "dtype": str(tensors[key].dtype),
                      "shape": list(tensors[key].shape)}

    vocab = model.config.vocab_size
    tokens = torch.tensor(rng.integers(0, vocab, (STEPS, BATCH, LENGTH + 1)), dtype=torch.int32)
    prompts = torch.tensor(rng.integers(0, vocab, (PROMPTS, PROMPT)), dtype=torch.int32)
    generated, margins = greedy(model, prompts)
    exact = train(copy.deepcopy(model).double(), tokens)
    single = train(model, tokens)
    ok = {n: torch.stack([(g[n].abs() >= 1e-5) | (g[n] == 0) for g in exact["clipped"]]).all(0)
          for n in exact["grad"]}
    add("tokens", tokens, "token batches [step, B, T+1]; step 0 is the one for logits, loss and "
        "gradients", "none (generated input)")
    add("logits", single["logits"], "logits [B, T, V] before any step")
    add("logits_f64", exact["logits"], "the same computed in float64")
    add("loss", np.float32(single["loss"][:1]), "loss of step 0")
    add("train.loss", np.float32(single["loss"]), "loss at the start of each step")
    add("train.loss_f64", np.float64(exact["loss"]), "the same computed in float64")
    add("train.grad_norm", np.float32(single["norm"]), "global gradient norm before clipping")
    for n in single["grad"]:
        add(f"grad.{n}", single["grad"][n], "gradient of step 0 before clipping")
        add(f"step1.{n}", single["weights"][0][n], "parameter after 1 AdamW step", torch_name)
        add(f"step3.{n}", single["weights"][2][n], "parameter after 3 AdamW steps", torch_name)
        add(f"step3_ok.{n}", ok[n].to(torch.uint8), "1 where to compare", torch_name)
    add("greedy.prompt", prompts, "prompts", "none (generated input)")
    add("greedy.tokens", generated, f"prompt followed by {NEW} greedy tokens")
    add("greedy.margin", margins, "best minus second-best logit at each step")
    error = lambda a, b: max(float((a[n].double() - b[n]).abs().max()) for n in a)
    notes["__run__"] = {
        "optimizer": "torch.optim.AdamW (decoupled decay)", "lr": LR, "betas": BETAS, "eps": EPS,
        "wd": DECAY, "clip": "global L2 norm over all parameters to 1.0; factor = min(1, 1/(norm + "
        "1e-6))", "steps": STEPS, "weight_decay_on": "matrices",
        "loss": "mean cross-entropy over all B*T positions",
        "step3_ok": "1 where the float64 run's clipped gradient was at least 1e-5 in size, or "
        "exactly 0, in all three steps: elsewhere Adam's division amplifies rounding",
        "grad_err_f32_vs_f64": error(single["grad"], exact["grad"]),
        "logit_err_f32_vs_f64": float((single["logits"] - exact["logits"]).abs().max())}
    note = f"{name}: forward, loss, gradients, AdamW steps, greedy generation. Parameter names as in model.safetensors."
    return tensors, {"schema": "narrowgauge-golden-1", "note": note, "cases": "{}",
                     "tensors": json.dumps(notes)}


def main():
    torch.set_num_threads(1)
    for number, (name, config) in enumerate(configs()):
        if len(sys.argv) > 1 and name not in sys.argv[1:]:
            continue
        rng = np.random.default_rng(2800 + number)
        config._attn_implementation = "eager"
        model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager")
        model.eval()
        draw(model, rng)
        folder = os.path.join(HERE, name)
        copy.deepcopy(model).to(torch.bfloat16).save_pretrained(folder)
        os.remove(os.path.join(folder, "generation_config.json"))
        tensors, metadata = reference(name, model, rng)
        save_file(tensors, os.path.join(folder, "reference.safetensors"), metadata)
        run = json.loads(metadata["tensors"])["__run__"]
        print(name, run["grad_err_f32_vs_f64"], run["logit_err_f32_vs_f64"],
              tensors["greedy.margin"].min())
        for file in sorted(os.listdir(folder)):
            data = open(os.path.join(folder, file), "rb").read()
            print(" ", file, len(data), hashlib.sha256(data).hexdigest())


if __name__ == "__main__":
    main()
