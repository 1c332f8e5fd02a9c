"""Types for editors and mypy: a stub of the C++ side, annotations of the rest."""

import ast
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT
from test_docs import blocks_of

import narrowgauge as ng

EXAMPLE = """
import numpy as np
import narrowgauge as ng

q: ng.Quantized = ng.quantize(np.ones((2, 32), np.float32), "mxfp4", seed=3)
bits: float = q.format.bits_per_value
code: int = ng.element("e4m3").encode(0.3)
names: list[str] = [f.name for f in ng.formats()]
sqnr: float = ng.error(q.dequantize(), q).sqnr_db
ids: list[int] = ng.Tokenizer("bytes").encode("a")
"""

OF_TORCH = """
import torch
import narrowgauge.torch as ngt

model: torch.nn.Module = torch.nn.Linear(4, 4)
report: ngt.Conversion = ngt.convert(model, "bf16", skip=["a"], names=lambda name: None)
names: list[str] = [row.layer for row in report]
micro: object = ngt.describe(model)["a"]["micro"]
loss: torch.Tensor = ngt.penalty(model)
if isinstance(model, ngt.Linear):
    weight: torch.Tensor = model.weight
"""


def test_the_stub_names_what_the_module_has():
    folder = Path(ng.__file__).parent
    assert (folder / "py.typed").exists()
    tree = ast.parse((folder / "_core.pyi").read_text())
    named = {node.name for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    made = {name for name in dir(ng._core) if not name.startswith("_")}
    assert named == made and len(made) > 15


def require(*modules):
    for module in modules:
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not there: scripts/python-tests --torch")


@pytest.fixture(scope="module")
def mypy(tmp_path_factory):
    """What it finds by some words, in a folder; what it has read of torch serves the next call."""
    cache = tmp_path_factory.mktemp("mypy")

    def run(folder, *words):
        command = [sys.executable, "-m", "mypy", "--no-error-summary", "--cache-dir", cache, *words]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        assert done.returncode in (0, 1), done.stderr
        return [line for line in done.stdout.split("\n") if ": error: " in line]

    return run


@pytest.mark.parametrize("example", [EXAMPLE, OF_TORCH], ids=["arrays", "torch"])
def test_mypy_takes_an_example(example, mypy, tmp_path):
    require("mypy", *["torch"] * (example is OF_TORCH))
    for text, problems in ((example, 0), (example + "wrong: str = 1\n", 1)):
        (tmp_path / "example.py").write_text(text)
        assert len(mypy(tmp_path, "--strict", "example.py")) == problems


def test_mypy_takes_the_package(mypy, tmp_path):
    require("mypy", "torch")
    assert mypy(tmp_path, "--config-file", ROOT / "pyproject.toml", "-p", "narrowgauge") == []


@pytest.mark.parametrize(
    ("page", "kinds", "needed"),
    [
        ("docs/python.md", ["python"], []),
        ("docs/torch.md", ["python", "python transformers"], ["torch", "transformers"]),
    ],
)
def test_mypy_takes_the_blocks_of_the_documentation(page, kinds, needed, mypy, tmp_path):
    require("mypy", *needed)
    for kind in kinds:
        (tmp_path / "of_docs.py").write_text("\n".join(blocks_of(page, kind)))
        found = mypy(tmp_path, "--config-file", ROOT / "pyproject.toml", "of_docs.py")
        assert found == [], kind
