"""Times PyTorch training steps of a GPT-2 or Llama on the CPU or a card; prints one JSON object.

The strong baseline: scaled_dot_product_attention, fused AdamW, gradients clipped to 1.0, no
dropout, no bookkeeping between steps. The shapes are those of `narrowgauge bench step`.

In FP32, or with --autocast in BF16 as PyTorch means it: weights, moments, norms and losses stay
FP32, matrix products and attention are BF16. --compile compiles forward and backward.
With --microxcaling the blocks' linear layers are its emulated MXFP4 ones, all three GEMMs.
"""

import argparse
import functools
import json
import resource
import statistics
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

# layers, heads, width, context, vocabulary, biases
MODELS = {
    "gpt2-124m": (12, 12, 768, 1024, 50257, True),
    "char-gpt": (6, 6, 384, 256, 65, False),
}
# layers, heads, width, feed-forward, vocabulary
LLAMAS = {
    "llama-134m": (12, 12, 768, 2048, 32000),
    "llama-1b": (18, 16, 2048, 5632, 32000),
}


def mxfp4_linear(folder):
    """The linear layer of the checkout of microsoft/microxcaling at `folder`, in MXFP4."""
    sys.path.insert(0, folder)
    import mx

    specs = mx.finalize_mx_specs({
        "w_elem_format": "fp4_e2m1", "a_elem_format": "fp4_e2m1", "scale_bits": 8, "block_size": 32,
        "custom_cuda": False, "quantize_backprop": True,
    })
    return functools.partial(mx.Linear, mx_specs=specs)


class Block(nn.Module):
    def __init__(self, width, heads, bias, linear):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width, bias=bias)
        self.qkv = linear(width, 3 * width, bias=bias)
        self.proj = linear(width, width, bias=bias)
        self.norm2 = nn.LayerNorm(width, bias=bias)
        self.up = linear(width, 4 * width, bias=bias)
        self.down = linear(4 * width, width, bias=bias)

    def forward(self, x):
        batch, length, width = x.shape
        split = (batch, length, self.heads, width // self.heads)
        q, k, v = (t.view(split).transpose(1, 2) for t in self.qkv(self.norm1(x)).chunk(3, dim=-1))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, layers, heads, width, context, vocab, bias, linear=nn.Linear):
        super().__init__()
        self.tokens = nn.Embedding(vocab, width)
        self.positions = nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads, bias, linear) for _ in range(layers))
        self.norm = nn.LayerNorm(width, bias=bias)
        self.head = nn.Linear(width, vocab, bias=False)
        self.head.weight = self.tokens.weight
        for name, parameter in self.named_parameters():
            if parameter.dim() >= 2:
                nn.init.normal_(parameter, std=0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, ids, targets):
        x = self.tokens(ids) + self.positions.weight[: ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


class LlamaBlock(nn.Module):
    def __init__(self, width, heads, inner):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.RMSNorm(width, eps=1e-5)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.proj = nn.Linear(width, width, bias=False)
        self.norm2 = nn.RMSNorm(width, eps=1e-5)
        self.gate_up = nn.Linear(width, 2 * inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x, cos, sin):
        batch, length, width = x.shape
        split = (batch, length, self.heads, width // self.heads)
        q, k, v = (t.view(split).transpose(1, 2) for t in self.qkv(self.norm1(x)).chunk(3, dim=-1))

        def turned(t):
            left, right = t.chunk(2, dim=-1)
            return (t * cos + torch.cat((-right, left), dim=-1) * sin).to(v.dtype)

        mixed = F.scaled_dot_product_attention(turned(q), turned(k), v, is_causal=True)
        x = x + self.proj(mixed.transpose(1, 2).reshape(batch, length, width))
        gate, up = self.gate_up(self.norm2(x)).chunk(2, dim=-1)
        return x + self.down(F.silu(gate) * up)


class Llama(nn.Module):
    def __init__(self, layers, heads, width, inner, vocab, length):
        super().__init__()
        self.tokens = nn.Embedding(vocab, width)
        self.blocks = nn.ModuleList(LlamaBlock(width, heads, inner) for _ in range(layers))
        self.norm = nn.RMSNorm(width, eps=1e-5)
        self.head = nn.Linear(width, vocab, bias=False)
        for parameter in self.parameters():
            if parameter.dim() >= 2:
                nn.init.normal_(parameter, std=0.02)
        half = width // heads // 2
        angles = torch.outer(torch.arange(length), 10000.0 ** (-torch.arange(half) / half))
        angles = torch.cat((angles, angles), dim=-1)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, ids, targets):
        x = self.tokens(ids)
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def model_of(args, linear):
    """The model, and how many tokens it knows."""
    if args.model in LLAMAS:
        return Llama(*LLAMAS[args.model], args.seq), LLAMAS[args.model][4]
    return Gpt(*MODELS[args.model], linear), MODELS[args.model][4]


def adamw(model):
    decayed = [p for p in model.parameters() if p.dim() >= 2]
    other = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": other, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95), eps=1e-8, fused=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=[*MODELS, *LLAMAS], required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--seq", type=int, required=True)
    parser.add_argument("--steps", type=int, default=5, help="timed steps")
    parser.add_argument("--warmup", type=int, default=2, help="steps before the timed ones")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu", help="cuda: the card (cpu)")
    parser.add_argument("--autocast", action="store_true", help="BF16 autocast")
    parser.add_argument("--compile", action="store_true", help="torch.compile the model")
    parser.add_argument("--microxcaling", metavar="FOLDER", help="its MXFP4 from this checkout")
    args = parser.parse_args()

    torch.manual_seed(1)
    torch.set_num_threads(args.threads)
    base_bytes = peak_bytes()
    linear = mxfp4_linear(args.microxcaling) if args.microxcaling else nn.Linear
    model, vocab = model_of(args, linear)
    model.to(args.device)
    parameters = sum(p.numel() for p in model.parameters())
    optimizer = adamw(model)
    step_of = torch.compile(model) if args.compile else model

    seconds, losses = [], []
    for _ in range(args.warmup + args.steps):
        ids = torch.randint(vocab, (args.batch, args.seq + 1), device=args.device)
        begin = time.perf_counter()
        with torch.autocast(args.device, torch.bfloat16, enabled=args.autocast):
            loss = step_of(ids[:, :-1], ids[:, 1:])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())  # and waits for a card
        seconds.append(time.perf_counter() - begin)

    median = statistics.median(seconds[args.warmup :])
    on_card = args.device != "cpu"
    print(json.dumps({
        "program": f"pytorch {torch.__version__} {'bf16' if args.autocast else 'fp32'} "
                   + ("compiled" if args.compile else "eager")
                   + (" microxcaling mxfp4" if args.microxcaling else ""),
        "model": args.model, "parameters": parameters,
        "device": torch.cuda.get_device_name() if on_card else "cpu",
        "batch": args.batch, "seq": args.seq, "threads": args.threads, "steps": args.steps,
        "seconds_per_step": median,
        "tokens_per_second": args.batch * args.seq / median,
        "peak_bytes": peak_bytes(), "peak_bytes_before_model": base_bytes,
        "peak_device_bytes": torch.cuda.max_memory_allocated() if on_card else 0,
        "first_loss": losses[0],
    }, indent=2))


def peak_bytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    main()
