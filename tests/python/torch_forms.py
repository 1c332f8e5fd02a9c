"""What tests of torch operations share: forms out of recipes, and numbers hard to cast."""

from __future__ import annotations

import json
import struct
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import narrowgauge as ng
from narrowgauge.torch._operations import Element, GemmForm, LinearForm, OperandForm

#: Keys of an operand that a Format has, by the Format's names.
FIELDS = [
    "block", "scale", "tensor_scale", "scale_rule", "fit", "select", "scale_max", "rounding",
    "overflow", "subnormals", "prescale",
]
OPERANDS = {"fprop": ("input", "weight"), "dgrad": ("grad", "weight"), "wgrad": ("grad", "input")}


def element(row: ng.Element) -> Element:
    return Element(
        row.short_name, row.kind, row.bits, row.exponent_bits, row.mantissa_bits, row.bias,
        row.specials,
    )


def keys_of(format: ng.Format) -> dict[str, Any]:
    keys = {field: getattr(format, field) for field in FIELDS}
    if "x" in keys["block"]:
        keys["block"] = [int(n) for n in keys["block"].split("x")]
    return {**keys, "sr_bits": format.random_bits}


def form_of(format: ng.Format) -> OperandForm:
    return OperandForm.of(keys_of(format), element(format.element))


def operand_form(spec: str | dict[str, Any]) -> OperandForm:
    """An operand as recipes write it: a format, and keys over what that sets."""
    given = {"format": spec} if isinstance(spec, str) else dict(spec)
    name = given.pop("format", "fp32")
    keys = {} if name == "fp32" else keys_of(ng.format(name))  # which nothing has to be cast to
    names = given.pop("element", name if not keys else ng.format(name).element.name)
    rows = [ng.element(one) for one in ([names] if isinstance(names, str) else names)]
    if "scale" in given:  # whose rule starts anew
        keys.pop("scale_rule", None)
    return OperandForm.of({**keys, **given}, *(element(row) for row in rows))


def linear_form(resolved: str | dict[str, Any], compute: str = "fp32") -> LinearForm:
    """The base numbers of a recipe: its resolved text, or a table of `linear`."""
    if isinstance(resolved, str):
        recipe = tomllib.loads(resolved)
        resolved, compute = recipe["linear"], recipe["compute"]
    gemms = []
    for name, (left, right) in OPERANDS.items():
        gemm = resolved[name]
        output, narrow = gemm.get("output", "fp32"), None
        if output not in ("compute", "bf16", "fp32"):
            output, narrow = "compute", operand_form(output)
        gemms.append(
            GemmForm(
                operand_form(gemm[left]), operand_form(gemm[right]), gemm["hadamard"],
                gemm["hadamard_signs"], gemm["center"], compute if output == "compute" else output,
                narrow,
            )
        )
    return LinearForm(*gemms)


def golden_cases(path: Path) -> dict[str, Any]:
    """The parameters of a golden file's cases."""
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    return json.loads(json.loads(data[8 : 8 + size])["__metadata__"]["cases"])


def hostile(rows: int, cols: int, seed: int = 0) -> torch.Tensor:
    """FP32 of every size: ties, subnormals, zeros of both signs, blocks of zeros, 1e38."""
    draws = {"generator": torch.Generator("cpu").manual_seed(seed), "device": "cpu"}
    x = torch.randn(rows, cols, **draws)
    x *= torch.exp2(torch.randint(-20, 20, (rows, 1), **draws).float())
    kind = torch.randint(0, 8, (rows, cols), **draws)
    x = torch.where(kind == 0, (x * 2).round() / 2, x)  # ties of E2M1
    x = torch.where(kind == 1, x * 2.0**-30, x)
    for row, size in zip(range(rows), [0.0, 1e-30, 1e-41, 1e30, 3e38]):
        x[-1 - row] = x[-1 - row].sign() * size * torch.rand(cols, **draws)
    x[rows // 2, : cols // 2] = 0.0
    x[rows // 3] = 6.0
    return x.to(torch.get_default_device())


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Zeros of both signs told apart, NaN equal to NaN."""
    if a.dtype != torch.float32:
        return a.dtype == b.dtype and torch.equal(a.to(torch.int64), b.to(torch.int64))
    nan = torch.isnan(a) & torch.isnan(b)
    return bool((nan | (a.view(torch.int32) == b.view(torch.int32))).all())


@pytest.fixture(autouse=True)
def where(request):
    """`pytest --device cuda` makes every tensor there."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.set_default_device(request.config.getoption("--device"))
    yield
    torch.set_default_device(None)
    torch.set_num_threads(threads)


def as_tensor(array: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.array(array)).to(torch.get_default_device())
