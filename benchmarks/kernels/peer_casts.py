#!/usr/bin/env python3
"""Casts of torch and ml_dtypes, G elements/s, on matrices of the sizes that bench kernels takes."""

import argparse
import json
import time

import ml_dtypes
import numpy
import torch

FOOTPRINTS = {"cache": (128, 768), "memory": (16384, 2048)}
LEAST_SECONDS = 2e-3


def casts(x):
    """name: (what it is compared with, a cast of x)."""
    tensor = torch.from_numpy(x)
    e4m3 = tensor.to(torch.float8_e4m3fn)
    return {
        "torch to e4m3": ("encode fp8_e4m3 along", lambda: tensor.to(torch.float8_e4m3fn)),
        "torch from e4m3": ("decode fp8_e4m3", lambda: e4m3.to(torch.float32)),
        "ml_dtypes to e4m3": ("encode fp8_e4m3 along",
                              lambda: x.astype(ml_dtypes.float8_e4m3fn)),
        "ml_dtypes to e2m1": ("encode mxfp4 along", lambda: x.astype(ml_dtypes.float4_e2m1fn)),
        "ml_dtypes to e3m2": ("encode mxfp6_e3m2 along",
                              lambda: x.astype(ml_dtypes.float6_e3m2fn)),
    }


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
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    results = {}
    for footprint, (rows, cols) in FOOTPRINTS.items():
        rows *= args.threads
        x = numpy.random.default_rng(1).standard_normal((rows, cols), dtype=numpy.float32)
        work = casts(x)
        best = {name: min(seconds_of(run) for _ in range(args.rounds))
                for name, (_, run) in work.items()}
        results[footprint] = [{"kernel": name, "beside": work[name][0],
                               "elements_per_second": x.size / best[name]} for name in work]
    print(json.dumps(results))


if __name__ == "__main__":
    main()
