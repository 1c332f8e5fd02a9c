#!/usr/bin/env python3
"""take_moments.py MOMENTS.safetensors FOLDER OUT: of golden vectors of AdamW's moments stored by
map, expand and parts (numpy 2.4.6; checked one number at a time) the cases below, with each case's
recipe from FOLDER. Needs Python 3.11 alone."""

import json
import struct
import sys

CASES = ["moments_map.normal", "moments_map.zeros", "moments_map.ties", "coat-adamw.decades",
         "coat-adamw.equal", "coat-adamw.near", "coat-adamw.zeros", "moments_parts.decades",
         "adam8bit.large", "adam8bit.normal", "moments_small.normal"]


def main(moments, folder, out):
    with open(moments, "rb") as file:
        (size,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(size))
        data = file.read()
    metadata = header.pop("__metadata__")
    known = json.loads(metadata["cases"])
    cases, tensors, body = {}, {}, b""
    for name in CASES:
        with open(f"{folder}/{known[name]['recipe']}.toml", encoding="utf-8") as recipe:
            cases[name] = known[name] | {"toml": recipe.read()}
    for name in sorted(header):
        if name.startswith("map.") or any(name.startswith(case + ".") for case in CASES):
            begin, end = header[name]["data_offsets"]
            tensors[name] = header[name] | {"data_offsets": [len(body), len(body) + end - begin]}
            body += data[begin:end]
    text = {"schema": "narrowgauge-golden-1", "note": metadata["note"], "cases": json.dumps(cases)}
    header = json.dumps({"__metadata__": text} | tensors, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    with open(out, "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header + body)


main(*sys.argv[1:])
