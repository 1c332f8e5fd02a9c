"""What the tests share: golden files, the program beside the package, a small run."""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden"
DTYPES = {"F64": "<f8", "F32": "<f4", "I64": "<i8", "I32": "<i4", "U16": "<u2", "U8": "u1"}
DTYPES["I8"] = "i1"


def pytest_addoption(parser):
    parser.addoption("--device", default="cpu", help="where torch operations are tested")


# A job in a shell's background ignores SIGINT, and Python, started so, has no KeyboardInterrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)


def array(tensor) -> np.ndarray:
    """The values of a torch tensor in FP32, by lists: torch 1.13 knows no NumPy 2."""
    return np.array(tensor.detach().float().tolist(), np.float32)


def tensors(path: Path) -> dict[str, np.ndarray]:
    """The tensors of a safetensors file."""
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    header.pop("__metadata__", None)
    out = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        if entry["dtype"] in DTYPES:
            values = np.frombuffer(data[8 + size + begin : 8 + size + end], DTYPES[entry["dtype"]])
            out[name] = values.reshape(entry["shape"])
    return out


def write_tensors(path: Path, values: dict[str, np.ndarray]) -> None:
    """A safetensors file of FP32 and FP64 tensors."""
    header, offset = {}, 0
    for name, array in values.items():
        dtype = {"<f4": "F32", "<f8": "F64"}[array.dtype.str]
        header[name] = {
            "dtype": dtype,
            "shape": array.shape,
            "data_offsets": [offset, offset + array.nbytes],
        }
        offset += array.nbytes
    text = json.dumps(header).encode()
    body = b"".join(np.ascontiguousarray(array).tobytes() for array in values.values())
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


@pytest.fixture
def program():
    """Runs the program, whose results the package's must be."""
    path = os.environ.get("NG_PROGRAM", str(ROOT / "build" / "release" / "narrowgauge"))
    if not os.access(path, os.X_OK):
        pytest.skip("the program is not built")

    def run(*words: object) -> str:
        done = subprocess.run([path, *map(str, words)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


RUN = """\
recipe = "mxfp4-sr-rht"
seed = 3
[model]
layers = 1
heads = 2
width = 128
ffn = 128
context = 32
[data]
train = "text.txt"
validation = 0.1
[train]
steps = 20
batch = 4
warmup = 2
validate_every = 10
checkpoint_every = 10
threads = 2
"""


@pytest.fixture
def run_file(tmp_path, monkeypatch):
    """A run file with its text, in a folder that is the current one."""
    monkeypatch.chdir(tmp_path)
    words = "the narrow gauge of numbers goes over hill and dale and never loses a bit ".split()
    order = np.random.default_rng(7).integers(0, len(words), 4000)
    Path("text.txt").write_text(" ".join(words[i] for i in order))
    Path("run.toml").write_text(RUN)
    return Path("run.toml")
