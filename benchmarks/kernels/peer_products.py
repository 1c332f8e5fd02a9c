#!/usr/bin/env python3
"""torch's products of matrices in FP32 and BF16, in the form of `bench gemm --json`."""

import argparse
import json

import torch
from peer_casts import seconds_of


def flops_of(m, n, k, dtype, rounds):
    generator = torch.Generator().manual_seed(1)
    a = torch.randn(m, k, generator=generator).to(dtype)
    b = torch.randn(n, k, generator=generator).to(dtype)
    y = torch.empty(m, n, dtype=dtype)
    seconds = min(seconds_of(lambda: torch.mm(a, b.t(), out=y)) for _ in range(rounds))
    return {"flops": 2 * m * n * k / seconds}


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
        shapes.append({"m": m, "n": n, "k": k, "formats": {
            "fp32": flops_of(m, n, k, torch.float32, args.rounds),
            "bf16": flops_of(m, n, k, torch.bfloat16, args.rounds)}})
    print(json.dumps({"shapes": shapes}))


if __name__ == "__main__":
    main()
