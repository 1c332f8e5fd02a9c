"""Makes packing.safetensors: bytes of GGUF's FP4 blocks with the values that the gguf package reads
from them, and scales in Blackwell's layout.

    pip install gguf==0.19.0 numpy==2.4.6 safetensors && python make_packing.py packing.safetensors
"""
import json
import sys

import gguf
import numpy as np
from safetensors.numpy import save_file

rng = np.random.default_rng(20261121)
tensors, notes = {}, {}


def put(name, array, desc, oracle):
    tensors[name] = np.ascontiguousarray(array)
    notes[name] = {"desc": desc, "oracle": oracle, "dtype": str(array.dtype),
                   "shape": list(array.shape)}


for name, block, scales in (("mxfp4", 17, 1), ("nvfp4", 36, 4)):
    kind = getattr(gguf.GGMLQuantizationType, name.upper())
    blocks = rng.integers(0, 256, (64, block), dtype=np.uint8)
    if name == "nvfp4":
        blocks[:, :scales] &= 0x7F                    # unsigned; gguf reads 7F, our NaN, as 0
        blocks[:, :scales][blocks[:, :scales] == 0x7F] = 0x7E
    else:
        blocks[blocks[:, 0] == 0xFF, 0] = 0xFE        # gguf has no NaN
        blocks[0, 0], blocks[1, 0], blocks[2, 0] = 0, 1, 0xFE
    put(f"{name}.blocks", blocks, "bytes of GGUF blocks", "random")
    put(f"{name}.values", gguf.quants.dequantize(blocks, kind), "their values", "gguf")

# gguf's own quantizer on numbers that E2M1 holds exactly under the floor rule's scale.
e2m1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], dtype=np.float32)
x = rng.choice(e2m1, (16, 32)) * rng.choice(np.float32([-1, 1]), (16, 32))
x[:, 0] = 6
x *= np.exp2(rng.integers(-20, 20, (16, 1))).astype(np.float32)
put("quantized.x", x.astype(np.float32), "representable numbers", "random")
put("quantized.blocks",
    gguf.quants.quantize(x.astype(np.float32), gguf.GGMLQuantizationType.MXFP4),
    "their MXFP4 blocks", "gguf")

for rows, cols in ((1, 1), (128, 4), (130, 9), (33, 5), (257, 12)):
    scales = rng.integers(0, 256, (rows, cols), dtype=np.uint8)
    padded = np.pad(scales, ((0, -rows % 128), (0, -cols % 4)))
    tiles = padded.reshape(-1, 4, 32, padded.shape[1] // 4, 4)  # tile row, quarter, row, tile, col
    put(f"{rows}x{cols}.scales", scales, "scale codes, row-major", "random")
    put(f"{rows}x{cols}.swizzled", tiles.transpose(0, 3, 2, 1, 4).reshape(-1),
        "the same in tiles of 128 x 4, as cuBLAS reads them", "numpy reshape and transpose")

save_file(tensors, sys.argv[1], {
    "schema": "narrowgauge-golden-1", "note": "Layouts of FP4 blocks and of block scales.",
    "tensors": json.dumps(notes),
    "command": f"python make_packing.py (gguf {getattr(gguf, '__version__', '0.19.0')}, "
               f"numpy {np.__version__})"})
