#!/usr/bin/env python3
"""take_cases.py SET KEYS.safetensors RIVALS.safetensors FOLDER OUT: of golden vectors of whole linear
layers (numpy 2.4.6; checked one number at a time and, for lists of fits, against
mit-han-lab/fouroversix) the cases of SET, with each case's recipe from FOLDER. `fits`: inputs, codes
and scales under `fit`, `select` and `scale_max`; `keys`: all tensors under the keys that came after
them; `products`: those of what becomes of products; `regions`: those of tensor_block; `elements`:
those of ternary elements and of lists of elements. Needs Python 3.11 alone."""

import json
import struct
import sys

OPERANDS = (".input", ".weight", ".grad", ".codes", ".scale", ".tensor_scale")
#: What the file is of; cases of KEYS and of RIVALS; the tensors of a case, None: all.
SETS = {
    "fits": ("Operands of a linear layer under recipes with fit, select and scale_max.",
             ["fit_list.b", "fit_stochastic", "fit_tiles", "fit_fp32", "select_mae"], ["nvfp4-46"],
             OPERANDS),
    "keys": ("A linear layer under recipes with keys of published methods: from, scale_of, eden, "
             "layers' signs, int4 with e4m3 scales, FP8 without.",
             ["from_exact", "from_rotated", "from_plain_rotated", "from_narrow_rotated",
              "signs_layer", "nvint4", "bare.b", "rms_rules.b", "eden_128.b"],
             ["tetrajet.b", "nvfp4-fwd-bf16-bwd.b", "nvint4-wgrad.b", "quartet2.b"], None),
    "products": ("A linear layer under recipes with keys of products: gradient, center.",
                 ["clip_plain.b", "clip_rotated.b", "dge.b", "center_wide.b", "center_operand.b",
                  "center_rotated.b"],
                 ["quartet.b", "quartet-even.b", "fp4-dge.b", "averis-wide.b", "averis-operand.b"],
                 None),
    "regions": ("A linear layer under recipes whose second scales are of rows and regions.",
                ["tensor_block_row.b", "tensor_block_128", "tensor_block_128.b", "tensor_block_32",
                 "tensor_block_32.b"],
                ["tetrajet-v2.b"], None),
    "elements": ("A linear layer under recipes with ternary elements and with lists of elements.",
                 ["ternary", "ternary.b", "ternary.c", "list_mse", "list_mse.b", "list_mae",
                  "list_mae.b"],
                 ["bitnet", "bitnet.b"], None),
}


def read(path):
    with open(path, "rb") as file:
        (size,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(size))
        data = file.read()
    return header.pop("__metadata__"), header, data


def main(name, keys, rivals, folder, out):
    note, of_keys, of_rivals, parts = SETS[name]
    tensors, cases, body = {}, {}, b""
    for path, names in ((keys, of_keys), (rivals, of_rivals)):
        metadata, header, data = read(path)
        known = json.loads(metadata["cases"])
        for name in names:
            case = known[name]
            recipe = f"{folder}/{case['recipe']}.toml"
            cases[name] = {key: case[key] for key in sorted(case) if key != "picked"}
            cases[name]["toml"] = open(recipe, encoding="utf-8").read()
            for tensor in sorted(t for t in header if t.startswith(name + ".")):
                rest = tensor.removeprefix(name)
                others = (".b.", ".c.")  # of another case
                if rest.startswith(others) or (parts is not None and not rest.endswith(parts)):
                    continue
                begin, end = header[tensor]["data_offsets"]
                tensors[tensor] = header[tensor] | {"data_offsets": [len(body), len(body) + end - begin]}
                body += data[begin:end]
    text = {"schema": "narrowgauge-golden-1", "note": note, "cases": json.dumps(cases)}
    header = json.dumps({"__metadata__": text} | tensors, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    with open(out, "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header + body)


main(*sys.argv[1:])
