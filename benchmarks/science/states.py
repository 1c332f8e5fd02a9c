"""Tensors of checkpoints and of `narrowgauge update`, from the standard library alone."""

import array
import json
import math
import struct


def e4m3(code):
    e, m = code >> 3 & 15, code & 7
    value = math.ldexp(8 + m, e - 10) if e else math.ldexp(m, -9)
    return -value if code & 128 else value


def e5m2(code):
    return struct.unpack("<e", bytes([0, code]))[0]


class File:
    """A safetensors file whose tensors have no scale, or one."""

    def __init__(self, path):
        data = path.read_bytes()
        size, = struct.unpack_from("<Q", data)
        self.header = json.loads(data[8:8 + size])
        self.header.pop("__metadata__", None)
        self.data = data[8 + size:]

    def codes(self, name):
        entry = self.header[name]
        raw = self.data[slice(*entry["data_offsets"])]
        kind = {"F32": "f", "F16": "H", "BF16": "H"}.get(entry["dtype"], "B")
        return array.array(kind, raw)

    def values(self, name):
        codes, dtype = self.codes(name), self.header[name]["dtype"]
        if dtype == "F32":
            return codes
        scale = self.codes(f"{name}.scale") if f"{name}.scale" in self.header else [1.0]
        if len(scale) > 1:
            raise ValueError(f"{name}: {len(scale)} scales")
        if dtype == "F16":
            codes = struct.unpack(f"<{len(codes)}e", codes.tobytes())
        elif dtype == "BF16":
            codes = array.array("f", array.array("I", [code << 16 for code in codes]).tobytes())
        elif dtype in ("F8_E4M3", "F8_E5M2"):
            decoded = [(e4m3 if dtype == "F8_E4M3" else e5m2)(code) for code in range(256)]
            codes = [decoded[code] for code in codes]
        return [scale[0] * value for value in codes]

    def is_zero(self, name):
        """Of each value, before its scale."""
        entry = self.header[name]
        if entry["dtype"] == "F32":
            return [value == 0 for value in self.codes(name)]
        digits = 0x7FFF if entry["dtype"] in ("F16", "BF16") else 0x7F
        return [code & digits == 0 for code in self.codes(name)]

    def matrices(self):
        """Names of the parameters of two dimensions."""
        return [name.removeprefix("weight.") for name, entry in self.header.items()
                if name.startswith("weight.") and not name.endswith(".scale")
                and entry["shape"][0] > 1]
