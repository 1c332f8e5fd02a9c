#!/usr/bin/env python3
"""Makes the folders and files beside itself: random codes with scales as other programs lay them,
and expected.safetensors, what they stand for. Values are numpy's: float32(element) times
float32(scale), the element by ml_dtypes; of NVFP4 times 1/global or times scale_2. Needs numpy and
ml_dtypes; run as `make_scales.py`, then correct MANIFEST.json (sizes and sums are printed)."""

import hashlib
import json
import os
import struct

import ml_dtypes as md
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
RNG = np.random.default_rng(35)
NAMES = {np.dtype(d): n for d, n in (
    (np.float64, "F64"), (np.float32, "F32"), (np.float16, "F16"), (md.bfloat16, "BF16"),
    (np.uint8, "U8"), (np.int8, "I8"), (md.float8_e4m3fn, "F8_E4M3"), (md.float8_e5m2, "F8_E5M2"),
    (md.float8_e8m0fnu, "F8_E8M0"))}
E2M1 = np.array([0, .5, 1, 1.5, 2, 3, 4, 6, -0., -.5, -1, -1.5, -2, -3, -4, -6], np.float32)


def write(path, tensors):
    """safetensors, in the order of `tensors`."""
    header, data = {}, b""
    for name, array in tensors.items():
        begin = len(data)
        data += array.tobytes()
        header[name] = {"dtype": NAMES[array.dtype], "shape": list(array.shape),
                        "data_offsets": [begin, len(data)]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)
    with open(path, "rb") as file:
        whole = file.read()
    print(os.path.relpath(path, os.path.dirname(HERE)), len(whole),
          hashlib.sha256(whole).hexdigest(), len(tensors))


def codes(dtype, *shape):
    """Any finite codes."""
    raw = RNG.integers(0, 256, shape, dtype=np.uint8)
    raw[~np.isfinite(raw.view(dtype).astype(np.float32))] = 1
    return raw.view(dtype)


def scales(dtype, *shape):
    if np.dtype(dtype) in (np.dtype(np.uint8), np.dtype(md.float8_e8m0fnu)):
        return RNG.integers(120, 130, shape, dtype=np.uint8).view(dtype)
    return np.asarray(RNG.uniform(0.002, 0.02, shape)).astype(dtype)


def wide(array):
    if array.dtype == np.uint8:
        return np.ldexp(np.float32(1), array.astype(np.int32) - 127).astype(np.float32)
    return array.astype(np.float32)


def spread(array, shape, block):
    """Scales of blocks, one for each value."""
    rows = np.repeat(np.repeat(array, block[0], -2), block[1], -1)
    return rows[..., :shape[-2], :shape[-1]]


class Model:
    def __init__(self):
        self.stored, self.expected = {}, {}

    def plain(self, name, dtype=md.bfloat16, shape=(5,)):
        self.stored[name] = RNG.normal(size=shape).astype(dtype)
        self.expected[name] = wide(self.stored[name])

    def extra(self, name, dtype=np.float32, shape=()):
        self.stored[name] = scales(dtype, *shape)

    def coded(self, weight, scale, element, shape, dtype, scale_shape, block=None, lies=None):
        """`block`: values of the last two dimensions that share a scale; `lies`: the shape that
        scales are stored in. (out) is a scale of each row."""
        c, s = codes(element, *shape), scales(dtype, *scale_shape)
        self.stored[weight] = c
        self.stored[scale] = s if lies is None else s.reshape(lies)
        if block is not None:
            by_value = spread(wide(s), shape, block)
        elif len(scale_shape) == 1:
            by_value = wide(s).reshape(scale_shape + (1,) * (len(shape) - 1))
        else:
            by_value = wide(s)
        self.expected[weight] = wide(c) * by_value

    def fp4(self, weight, packed, rows, cols, block, scale, factor=None, divides=False):
        raw = RNG.integers(0, 256, (rows, cols // 2), dtype=np.uint8)
        values = np.empty((rows, cols), np.float32)
        values[:, 0::2], values[:, 1::2] = E2M1[raw & 15], E2M1[raw >> 4]
        s = (scales(np.uint8, rows, cols // block) if factor is None
             else RNG.uniform(0.5, 400, (rows, cols // block)).astype(md.float8_e4m3fn))
        self.stored[packed], self.stored[scale] = raw, s
        values = values * np.repeat(wide(s), block, -1)
        if factor is not None:
            shape = (1,) if divides else ()
            f = np.full(shape, 731.5 if divides else 0.0013, np.float32)
            self.stored[factor] = f
            values = values * (np.float32(1) / f if divides else f)
        self.expected[weight] = values

    def write(self, name, config=None, quant=None):
        folder = os.path.join(HERE, name)
        os.makedirs(folder, exist_ok=True)
        for file, content in (("config.json", config), ("hf_quant_config.json", quant)):
            if content is None:
                continue
            with open(os.path.join(folder, file), "w") as out:
                json.dump(content, out, indent=1)
                out.write("\n")
        write(os.path.join(folder, "model.safetensors"), self.stored)
        write(os.path.join(folder, "expected.safetensors"), self.expected)


E4M3, E5M2, E8M0, BF16 = md.float8_e4m3fn, md.float8_e5m2, md.float8_e8m0fnu, md.bfloat16


def fine():
    """transformers' fp8: blocks of 4 x 8 that end early, every dtype of scales, fused experts."""
    m, block = Model(), (4, 8)
    for name, dtype in (("f32", np.float32), ("bf16", BF16), ("f16", np.float16), ("e8m0", E8M0)):
        m.coded(f"{name}.weight", f"{name}.weight_scale_inv", E4M3, (10, 20), dtype, (3, 3), block)
    m.coded("e.experts.gate_up_proj", "e.experts.gate_up_proj_scale_inv", E4M3, (2, 10, 20), BF16,
            (2, 3, 3), block)
    m.coded("e.experts.down_proj", "e.experts.down_proj_scale_inv", E5M2, (2, 4, 20), np.float32,
            (2, 1, 3), block)
    m.extra("e.experts.down_proj_activation_scale")
    m.coded("static.weight", "static.weight_scale_inv", E4M3, (3, 5), BF16, ())
    m.extra("static.activation_scale", BF16)
    m.plain("norm.weight")
    m.write("fine", {"model_type": "other", "quantization_config": {
        "quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": list(block),
        "modules_to_not_convert": ["norm"]}})


def compressed():
    """compressed-tensors, mixed precision: each group has a format, some have scales of others."""
    def group(target, form, **weights):
        return {"targets": [target], "format": form, "input_activations": None,
                "output_activations": None,
                "weights": {"num_bits": 8, "type": "float", "symmetric": True} | weights}

    m = Model()
    m.coded("channel.weight", "channel.weight_scale", E4M3, (6, 7), BF16, (6, 1))
    m.extra("channel.input_scale", BF16, (1,))
    m.stored["channel.weight_zero_point"] = np.zeros((6, 1), np.int8)
    m.coded("tensor.weight", "tensor.weight_scale", E4M3, (6, 7), np.float16, (1,))
    m.extra("tensor.output_scale", np.float16, (1,))
    m.coded("block.weight", "block.weight_scale", E4M3, (6, 7), np.float32, (2, 2), (5, 6))
    m.coded("group.weight", "group.weight_scale", E4M3, (6, 7), BF16, (6, 3), (1, 3))
    m.fp4("nvfp4.weight", "nvfp4.weight_packed", 3, 32, 16, "nvfp4.weight_scale",
          "nvfp4.weight_global_scale", True)
    m.extra("nvfp4.input_global_scale", np.float32, (1,))
    m.fp4("mxfp4.weight", "mxfp4.weight_packed", 3, 64, 32, "mxfp4.weight_scale")
    m.coded("mxfp8.weight", "mxfp8.weight_scale", E4M3, (3, 64), np.uint8, (3, 2), (1, 32))
    for part in "qkv":
        m.extra(f"self_attn.{part}_scale", BF16, (1,))
    m.plain("ignored.weight", shape=(6, 7))
    m.write("compressed", {"model_type": "other", "quantization_config": {
        "quant_method": "compressed-tensors", "format": "mixed-precision", "ignore": ["ignored"],
        "config_groups": {
            "a": group("re:channel", "float-quantized", strategy="channel"),
            "b": group("tensor", "naive-quantized", strategy="tensor"),
            "c": group("block", "float-quantized", strategy="block", block_structure=[5, 6]),
            "d": group("group", "float-quantized", strategy="group", group_size=3),
            "e": group("nvfp4", "nvfp4-pack-quantized", num_bits=4, strategy="tensor_group",
                       group_size=16),
            "f": group("mxfp4", "mxfp4-pack-quantized", num_bits=4, strategy="group",
                       group_size=32),
            "g": group("mxfp8", "mxfp8-quantized", strategy="group", group_size=32),
            "h": {"targets": ["self_attn"], "weights": None, "format": None}}}})


def modelopt():
    """modelopt: hf_quant_config.json alone, an algorithm for each layer."""
    m = Model()
    m.coded("fp8.weight", "fp8.weight_scale", E4M3, (6, 7), np.float32, ())
    m.extra("fp8.input_scale")
    m.coded("row.weight", "row.weight_scale", E4M3, (6, 7), np.float32, (6,))
    m.coded("block.weight", "block.weight_scale", E4M3, (3, 140), np.float32, (1, 2),
            (128, 128), lies=(1, 1, 2, 1))
    m.fp4("nvfp4.weight", "nvfp4.weight", 3, 32, 16, "nvfp4.weight_scale", "nvfp4.weight_scale_2")
    m.extra("nvfp4.input_scale")
    m.coded("mxfp8.weight", "mxfp8.weight_scale", E4M3, (3, 64), np.uint8, (3, 2), (1, 32))
    m.coded("e.experts.gate_up_proj", "e.experts.gate_up_proj_weight_scale", E4M3, (2, 4, 6),
            np.float32, ())
    m.extra("e.experts.gate_up_proj_input_scale")
    m.extra("self_attn.k_proj.k_scale")
    m.extra("self_attn.v_proj.v_scale")
    m.plain("lm_head.weight", shape=(6, 7))
    algorithms = {"fp8": "FP8", "row": "FP8_PER_CHANNEL_PER_TOKEN", "block": "fp8_pb_wo",
                  "nvfp4": "NVFP4", "mxfp8": "MXFP8", "e.experts": "FP8"}
    m.write("modelopt", {"model_type": "other"}, {
        "producer": {"name": "modelopt", "version": "0.47.0"},
        "quantization": {"quant_algo": "MIXED_PRECISION", "kv_cache_quant_algo": "FP8",
                         "exclude_modules": ["lm_head"],
                         "quantized_layers": {k: {"quant_algo": v} for k, v in
                                              algorithms.items()}}})


def unnamed():
    """No configuration of quantization: scales whose shapes say all."""
    m = Model()
    m.coded("a.weight", "a.weight_scale", E4M3, (6, 7), np.float32, ())
    m.coded("b.weight", "b.weight_scale_inv", E5M2, (6, 7), BF16, (6, 1))
    m.coded("c.experts.w", "c.experts.w_scale", E4M3, (2, 3, 5), np.float32, (2, 3, 1))
    m.coded("d.weight", "d.qscale_weight", E4M3, (3, 4), np.float32, ())
    m.extra("d.qscale_act")
    m.plain("e.weight", np.float16)
    m.write("unnamed", {"model_type": "other"})


def comfy():
    """ComfyUI: one file, scaled FP8 by both spellings."""
    m = Model()
    m.stored["scaled_fp8"] = np.zeros(0, np.uint8).view(E4M3)
    m.coded("b.0.q.weight", "b.0.q.scale_weight", E4M3, (6, 7), np.float32, ())
    m.extra("b.0.q.scale_input")
    m.coded("b.1.q.weight", "b.1.q.scale_weight", E5M2, (6, 7), np.float32, (1,))
    m.plain("b.1.q.bias", np.float16)
    m.coded("b.2.conv.weight", "b.2.conv.scale_weight", E4M3, (3, 2, 2, 2), np.float32, ())
    m.coded("b.3.q.weight", "b.3.q.weight_scale", E4M3, (6, 7), np.float32, ())
    m.extra("b.3.q.input_scale")
    mark = json.dumps({"format": "float8_e4m3fn", "full_precision_matrix_mult": True}).encode()
    m.stored["b.3.q.comfy_quant"] = np.frombuffer(mark, np.uint8)
    m.write("comfy")


for make in (fine, compressed, modelopt, unnamed, comfy):
    make()
