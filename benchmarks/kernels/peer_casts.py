#!/usr/bin/env python3
"""Casts of torch and ml_dtypes, and noise of torch: G elements/s, matrices as of bench kernels."""

import argparse
import json
import time

import ml_dtypes
import numpy
import torch

LEAST_SECONDS = 2e-3
BLOCK = 32  # of weights that share a bit-width


def noisy(weight, bits=6.0):
    """Rounded normal noise on a weight, Eq. 3 of GaussWS as one writes it in torch."""
    rows, cols = weight.shape
    blocks = weight.view(rows // BLOCK, BLOCK, cols // BLOCK, BLOCK)
    scale = blocks.abs().amax(dim=(1, 3), keepdim=True) * 2 ** (1 - bits)
    noise = torch.round(torch.randn_like(weight) / 2).view_as(blocks)
    return (blocks + noise * scale).view_as(weight).to(torch.bfloat16)


def casts(x):
    """name: (what it is compared with, a cast of x)."""
    tensor = torch.from_numpy(x)
    e4m3 = tensor.to(torch.float8_e4m3fn)
    return {
        "torch to e4m3": ("encode fp8_e4m3 along", lambda: tensor.to(torch.float8_e4m3fn)),
        "torch from e4m3": ("decode fp8_e4m3", lambda: e4m3.to(torch.float32)),
        "torch noise": ("noise gaussws", lambda: noisy(tensor)),
        "ml_dtypes to e4m3": ("encode fp8_e4m3 along",
                              lambda: x.astype(ml_dtypes.float8_e4m3fn)),
        "ml_dtypes to e2m1": ("encode mxfp4 along", lambda: x.astype(ml_dtypes.float4_e2m1fn)),
        "ml_dtypes to e3m2": ("encode mxfp6_e3m2 along",
                              lambda: x.astype(ml_dtypes.float6_e3m2fn)),
    }


def footprints(args):
    """name: (rows, columns)."""
    if args.sizes:
        return {size: (int(size), int(size)) for size in args.sizes.split(",")}
    return {"cache": (128 * args.threads, 768), "memory": (16384 * args.threads, 2048)}


def seconds_of(work):
    start, calls = time.perf_counter(), 0
    while time.perf_counter() - start < LEAST_SECONDS:
        work()
        calls += 1
    return (time.perf_counter() - start) / calls


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--filter", default="")
    parser.add_argument("--sizes", default="")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    results = {}
    for footprint, (rows, cols) in footprints(args).items():
        x = numpy.random.default_rng(1).standard_normal((rows, cols), dtype=numpy.float32)
        work = {name: work for name, work in casts(x).items() if args.filter in name}
        best = {name: min(seconds_of(run) for _ in range(args.rounds))
                for name, (_, run) in work.items()}
        results[footprint] = [{"kernel": name, "beside": work[name][0],
                               "elements_per_second": x.size / best[name]} for name in work]
    print(json.dumps(results))


if __name__ == "__main__":
    main()
