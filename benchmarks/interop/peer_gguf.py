"""What another program sees in a GGUF of NVFP4 weights. For ship; needs numpy, gguf, xllamacpp.

usage: peer_gguf.py FILE.gguf MODEL_FOLDER EXPECTED.json
Quantizes the folder's FP32 matrices as NVIDIA, "Pretraining Large Language Models with NVFP4"
(2025), says, in tiles of 16 x 16, and compares scales and codes with the file's; then lets
llama.cpp tokenize EXPECTED's prompt and continue it greedily. Exit code 0 all equal, 1 not.
"""

import ctypes
import json
import pathlib
import struct
import sys

import gguf
import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "hf"))
import open_with_llama_cpp as llama  # noqa: E402

F32 = np.float32
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], F32)
E4M3 = np.array([2.0 ** -9 * m if e == 0 else 2.0 ** (e - 7) * (1 + m / 8)
                 for e in range(16) for m in range(8)][:127], F32)  # 127 is NaN
NAMES = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
         "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
         "mlp.down_proj": "ffn_down"}


def nearest(values, table):
    """Codes of the nearest entries of a rising table, ties to the even code."""
    above = np.clip(np.searchsorted(table, values), 1, len(table) - 1)
    low, high = table[above - 1], table[above]
    middle = (low.astype(np.float64) + high) / 2
    up = (values > middle) | ((values == middle) & (above % 2 == 0))
    return np.where(up, above, above - 1).astype(np.uint8)


def quantize(weight):
    """Codes of elements, codes of the tiles' scales repeated by row, and the tensor's scale."""
    rows, columns = weight.shape
    encode = F32(448 * 6) / np.abs(weight).max()
    tensor = F32(1) / encode
    tiles = np.abs(weight).reshape(rows // 16, 16, columns // 16, 16).max((1, 3))
    scales = nearest(np.minimum(tiles * (encode * F32(1 / 6)), F32(448)), E4M3)
    scales = scales.repeat(16, 0)
    inverse = F32(1) / (E4M3[scales] * tensor)
    scaled = weight * inverse.repeat(16, 1)
    codes = nearest(np.minimum(np.abs(scaled), F32(6)), E2M1)
    return codes | (np.signbit(scaled) * 8).astype(np.uint8), scales, tensor


def neighbours(rows, heads):
    """The order of rows in which llama.cpp's rope turns neighbours."""
    return np.arange(rows).reshape(heads, 2, -1).swapaxes(1, 2).ravel()


def blocks_of(codes, scales):
    """As GGUF packs them: four scales, then 32 bytes, for 64 elements."""
    rows = len(codes)
    subs = codes.reshape(rows, -1, 4, 16)
    packed = (subs[..., :8] | subs[..., 8:] << 4).reshape(rows, -1, 32)
    return np.concatenate([scales.reshape(rows, -1, 4), packed], 2).reshape(rows, -1)


def safetensors(path):
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    for name, entry in json.loads(data[8:8 + size]).items():
        if name != "__metadata__" and entry["dtype"] == "F32":
            begin, end = entry["data_offsets"]
            yield name, np.frombuffer(data[8 + size + begin:8 + size + end],
                                      F32).reshape(entry["shape"])


def compare_weights(file, folder):
    """Names of tensors that differ, after a line of how many are equal."""
    config = json.loads((folder / "config.json").read_text())
    heads = {"self_attn.q_proj": config["num_attention_heads"],
             "self_attn.k_proj": config["num_key_value_heads"]}
    seen = {tensor.name: tensor for tensor in gguf.GGUFReader(file).tensors}
    wrong, count, values = [], 0, 0
    for name, weight in safetensors(folder / "model.safetensors"):
        layer, _, part = name.removeprefix("model.layers.").removesuffix(".weight").partition(".")
        if part not in NAMES:
            continue
        codes, scales, tensor = quantize(weight)
        if part in heads:
            order = neighbours(len(codes), heads[part])
            codes, scales = codes[order], scales[order]
        there = f"blk.{layer}.{NAMES[part]}"
        count, values = count + 1, values + weight.size
        blocks = seen[there + ".weight"].data.view(np.uint8).reshape(len(codes), -1)
        if not np.array_equal(blocks, blocks_of(codes, scales)):
            wrong.append(there + ".weight")
        if seen[there + ".scale"].data.view(np.uint32) != tensor.view(np.uint32):
            wrong.append(there + ".scale")
    print(f"{count} matrices, {values:,} weights: "
          f"{'every code and scale is the trained one' if not wrong else 'DIFFERENT'}")
    return wrong


def continue_greedily(file, expected):
    lib = llama.library()
    lib.llama_backend_init()
    quiet = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(
        lambda *unused: None)
    lib.llama_log_set(quiet, None)
    model = lib.llama_model_load_from_file(file.encode(), lib.llama_model_default_params())
    if not model:
        return ["llama.cpp does not load it"]
    vocab = lib.llama_model_get_vocab(ctypes.c_void_p(model))
    prompt = llama.tokenize(lib, vocab, expected["prompt"])
    ids = list(prompt)
    for _ in expected["ids"]:
        ids.append(int(np.argmax(llama.logits(lib, model, vocab, ids))))
    ids = ids[len(prompt):]
    same = sum(1 for n in range(len(ids)) if ids[:n + 1] == expected["ids"][:n + 1])
    text = gguf_text(file, ids)
    print(f"llama.cpp: {expected['prompt']}{text}\n"
          f"the first {same} of {len(ids)} tokens are ours")
    return [] if prompt == expected["prompt_ids"] else [
        f"the prompt is {prompt}, not {expected['prompt_ids']}"]


def gguf_text(file, ids):
    """Text of ids by the file's vocabulary of byte names."""
    field = gguf.GGUFReader(file).fields["tokenizer.ggml.tokens"]
    bytes_of = {name: byte for byte, name in enumerate(byte_names())}
    text = "".join(field.contents(index) for index in ids)
    return bytes(bytes_of[c] for c in text if c in bytes_of).decode("utf-8", "replace")


def byte_names():
    """GPT-2's names of bytes: printable ones are themselves, the rest follow 255."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(byte if byte in printable else next(others)) for byte in range(256)]


def main():
    file, folder, expected = sys.argv[1:]
    wrong = compare_weights(file, pathlib.Path(folder))
    wrong += continue_greedily(file, json.loads(pathlib.Path(expected).read_text()))
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
