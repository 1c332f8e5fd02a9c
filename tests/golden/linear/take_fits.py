#!/usr/bin/env python3
"""take_fits.py KEYS.safetensors RIVALS.safetensors FOLDER OUT: the cases of `fit`, `select` and
`scale_max` among golden vectors of whole linear layers (numpy 2.4.6; checked one number at a time
and, for lists, against mit-han-lab/fouroversix): inputs, codes and scales, and each case's recipe
from FOLDER. Needs Python 3.11 alone."""

import json
import struct
import sys

KEYS = ["fit_list.b", "fit_stochastic", "fit_tiles", "fit_fp32", "select_mae"]
PARTS = (".input", ".weight", ".grad", ".codes", ".scale", ".tensor_scale")


def read(path):
    with open(path, "rb") as file:
        (size,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(size))
        data = file.read()
    return header.pop("__metadata__"), header, data


def main(keys, rivals, folder, out):
    tensors, cases, body = {}, {}, b""
    for path, names in ((keys, KEYS), (rivals, ["nvfp4-46"])):
        metadata, header, data = read(path)
        known = json.loads(metadata["cases"])
        for name in names:
            case = known[name]
            recipe = f"{folder}/{case['recipe']}.toml"
            cases[name] = {key: case[key] for key in sorted(case) if key != "picked"}
            cases[name]["toml"] = open(recipe, encoding="utf-8").read()
            for tensor in sorted(t for t in header if t.startswith(name + ".")):
                rest = tensor.removeprefix(name)
                if not rest.endswith(PARTS) or rest.startswith(".b."):  # of another case
                    continue
                begin, end = header[tensor]["data_offsets"]
                tensors[tensor] = header[tensor] | {"data_offsets": [len(body), len(body) + end - begin]}
                body += data[begin:end]
    note = "Operands of a linear layer under recipes with fit, select and scale_max."
    text = {"schema": "narrowgauge-golden-1", "note": note, "cases": json.dumps(cases)}
    header = json.dumps({"__metadata__": text} | tensors, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    with open(out, "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header + body)


main(*sys.argv[1:])
