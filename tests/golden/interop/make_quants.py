"""Makes quants/: GGUF files with a tensor of each type of small integers, their values, and files as
writers other than llama.cpp's have them.

    pip install gguf==0.19.0 numpy==2.4.6 safetensors && python make_quants.py quants

`quants.gguf` holds random blocks with scales of every kind (written by a writer of its own),
`quants.safetensors` what gguf.quants.dequantize makes of them, bit for bit. `split-*.gguf` is one
model in three files, as gguf-split writes it: keys in the first, tensors in the others."""

import json
import struct
import sys
from pathlib import Path

import gguf
import numpy as np
from safetensors.numpy import save_file

rng = np.random.default_rng(20261127)
KINDS = ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K")
# Where each block has FP16 numbers.
HALVES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q2_K": [80, 82],
          "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208]}


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def key(name, kind, data):
    return text(name) + struct.pack("<I", kind) + data


def file_of(keys, tensors, version=3, padded=True, behind=b""):
    """Of tensors (name, type, shape innermost first, bytes)."""
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(keys)) + b"".join(keys)
    data = b""
    for name, kind, shape, stored in tensors:
        head += text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *shape)
        head += struct.pack("<IQ", kind, len(data))
        data += stored + bytes(-len(stored) % 32)
    if not padded:
        data = data[:len(data) - (-len(tensors[-1][3]) % 32)]
    return head + bytes(-len(head) % 32) + data + behind


def blocks_of(kind, rows, columns):
    """Random bytes; FP16 numbers finite, of either sign, a zero and subnormal ones among them."""
    values, size = gguf.constants.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]]
    blocks = rng.integers(0, 256, (rows * columns // values, size), dtype=np.uint8)
    for at in HALVES[kind]:
        halves = (rng.normal(size=len(blocks)) * 10.0 ** rng.integers(-6, 3, len(blocks)))
        halves = halves.astype(np.float16)
        halves[:4] = np.float16([0, 6e-8, -6e-5, 60000])
        blocks[:, at:at + 2] = halves.reshape(-1, 1).view(np.uint8)
    return blocks


def main():
    folder = Path(sys.argv[1])
    folder.mkdir(exist_ok=True)
    architecture = key("general.architecture", 8, text("none"))
    tensors, values = [], {}
    for kind in KINDS:
        name, columns = f"{kind.lower()}.weight", 256 * 3 if kind.endswith("K") else 32 * 5
        rows = 4
        number = gguf.GGMLQuantizationType[kind]
        blocks = blocks_of(kind, rows, columns)
        tensors.append((name, int(number), [columns, rows], blocks.tobytes()))
        values[name] = gguf.quants.dequantize(blocks, number).reshape(rows, columns)
    for name, kind, dtype in (("f64", 28, np.float64), ("i8", 24, np.int8), ("i16", 25, np.int16),
                              ("i32", 26, np.int32), ("i64", 27, np.int64)):
        array = (rng.normal(size=7) * 100).astype(dtype)
        tensors.append((f"{name}.values", kind, [7], array.tobytes()))
        values[f"{name}.values"] = array.astype(np.float32)
    (folder / "quants.gguf").write_bytes(file_of([architecture], tensors))
    save_file(values, folder / "quants.safetensors")
    reader = gguf.GGUFReader(folder / "quants.gguf")
    for tensor in reader.tensors:
        if tensor.name.endswith(".weight"):
            read = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
            assert np.array_equal(read.view(np.uint32), values[tensor.name].view(np.uint32))

    split = []
    for number in range(3):
        keys = [key("split.no", 2, struct.pack("<H", number)),
                key("split.count", 2, struct.pack("<H", 3)),
                key("split.tensors.count", 5, struct.pack("<i", 3))]
        own = [] if number == 0 else [
            (f"{number}.{name}.weight", 0, [4], np.float32([number, 2, 3, at]).tobytes())
            for at, name in enumerate("ab"[:3 - number])]
        split.append(file_of([architecture] + keys if number == 0 else keys, own))
    for number, data in enumerate(split):
        (folder / f"split-{number + 1:05}-of-00003.gguf").write_bytes(data)


main()
