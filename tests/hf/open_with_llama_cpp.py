"""Opens GGUF files with llama.cpp and compares what it sees.

usage: open_with_llama_cpp.py FILE.gguf EXPECTED.json ...
EXPECTED: {"texts": [...], "ids": [[...], ...]} and, both or neither, {"prompt": [...],
"logits": [...], "rms": R}: the logits behind the prompt and how far their RMS difference may be.
Prints what is wrong; exit code 0 all right, 1 not, 77 where xllamacpp is not installed. The C
interface is called in xllamacpp's shared object, which exports it.
"""

import ctypes
import json
import math
import pathlib
import sys

try:
    import xllamacpp
except ImportError as error:
    print(f"not installed: {error.name}")
    sys.exit(77)


class Params(ctypes.Structure):
    """Parameters that llama.cpp fills in and takes by value: larger than theirs, kept opaque."""

    _fields_ = [("bytes", ctypes.c_byte * 1024)]


class Batch(ctypes.Structure):
    _fields_ = [("n_tokens", ctypes.c_int32), ("token", ctypes.c_void_p),
                ("embd", ctypes.c_void_p), ("pos", ctypes.c_void_p),
                ("n_seq_id", ctypes.c_void_p), ("seq_id", ctypes.c_void_p),
                ("logits", ctypes.c_void_p)]


def library():
    folder = pathlib.Path(xllamacpp.__file__).parent
    lib = ctypes.CDLL(str(next(folder.glob("xllamacpp*.so"))))
    for name in ("llama_model_load_from_file", "llama_init_from_model", "llama_model_get_vocab"):
        getattr(lib, name).restype = ctypes.c_void_p
    for name in ("llama_model_default_params", "llama_context_default_params"):
        getattr(lib, name).restype = Params
    lib.llama_batch_get_one.restype = Batch
    lib.llama_get_logits_ith.restype = ctypes.POINTER(ctypes.c_float)
    return lib


def tokenize(lib, vocab, text):
    data = text.encode("utf-8")
    ids = (ctypes.c_int32 * (len(data) + 16))()
    count = lib.llama_tokenize(ctypes.c_void_p(vocab), data, len(data), ids, len(ids), False, True)
    return list(ids[:count])


def logits(lib, model, vocab, prompt):
    context = lib.llama_init_from_model(ctypes.c_void_p(model), lib.llama_context_default_params())
    tokens = (ctypes.c_int32 * len(prompt))(*prompt)
    if lib.llama_decode(ctypes.c_void_p(context), lib.llama_batch_get_one(tokens, len(prompt))):
        return []
    count = lib.llama_vocab_n_tokens(ctypes.c_void_p(vocab))
    return lib.llama_get_logits_ith(ctypes.c_void_p(context), -1)[:count]


def check(lib, path, expected):
    model = lib.llama_model_load_from_file(path.encode(), lib.llama_model_default_params())
    if not model:
        yield "llama.cpp does not load it"
        return
    vocab = lib.llama_model_get_vocab(ctypes.c_void_p(model))
    for text, ids in zip(expected.get("texts", []), expected.get("ids", [])):
        seen = tokenize(lib, vocab, text)
        if seen != ids:
            yield f"encodes {text!r} as {seen}, not {ids}"
    if "logits" in expected:
        want = expected["logits"]
        seen = logits(lib, model, vocab, expected["prompt"])
        if len(seen) != len(want):
            yield f"{len(seen)} logits, not {len(want)}"
            return
        rms = math.sqrt(sum((a - b) ** 2 for a, b in zip(seen, want)) / len(want))
        print(f"{path}: logits differ by {rms:.2g} (RMS)", file=sys.stderr)
        if not rms <= expected["rms"]:
            yield f"logits differ by {rms} (RMS), not {expected['rms']}"


def main():
    lib = library()
    lib.llama_backend_init()
    quiet = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(
        lambda *unused: None)
    lib.llama_log_set(quiet, None)
    wrong = []
    for path, expected in zip(sys.argv[1::2], sys.argv[2::2]):
        with open(expected, encoding="utf-8") as file:
            wrong += [f"{path}: {text}" for text in check(lib, path, json.load(file))]
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
