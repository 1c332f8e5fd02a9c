#!/usr/bin/env python3
"""torch's products of matrices in FP32 and BF16, in the form of `bench gemm --json`."""

import argparse
import json

import torch
from peer_casts import seconds_of


DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


def flops_of(m, n, k, rounds):
    """By format: the best of rounds in which all take turns."""
    generator = torch.Generator().manual_seed(1)
    wide = torch.randn(m, k, generator=generator), torch.randn(n, k, generator=generator)
    best = dict.fromkeys(DTYPES, float("inf"))
    made = {name: ([x.to(dtype) for x in wide], torch.empty(m, n, dtype=dtype))
            for name, dtype in DTYPES.items()}
    for _ in range(rounds):
        for name, ((a, b), y) in made.items():
            best[name] = min(best[name], seconds_of(lambda: torch.mm(a, b.t(), out=y)))
    return {name: {"flops": 2 * m * n * k / seconds} for name, seconds in best.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("shapes", nargs="+", metavar="M,N,K")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    shapes = []
    for text in args.shapes:
        m, n, k = (int(size) for size in text.split(","))
        shapes.append({"m": m, "n": n, "k": k, "formats": flops_of(m, n, k, args.rounds)})
    print(json.dumps({"shapes": shapes}))


if __name__ == "__main__":
    main()
