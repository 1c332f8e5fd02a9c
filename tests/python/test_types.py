"""Types for editors and mypy: a stub of the C++ side, annotations of the rest."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

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


@pytest.mark.parametrize("example", [EXAMPLE, OF_TORCH], ids=["arrays", "torch"])
def test_mypy_takes_an_example(example, tmp_path):
    pytest.importorskip("mypy")
    if example is OF_TORCH:
        pytest.importorskip("torch")
    for text, code in ((example, 0), (example + "wrong: str = 1\n", 1)):
        (tmp_path / "example.py").write_text(text)
        words = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"),
                 str(tmp_path / "example.py")]  # fmt: skip
        done = subprocess.run(words, capture_output=True, text=True)
        assert done.returncode == code, done.stdout
