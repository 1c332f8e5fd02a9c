"""Opens model folders with Hugging Face transformers and compares what it sees.

usage: open_with_transformers.py FOLDER...
Prints what is wrong; exit code 0 all right, 1 not, 77 where transformers or torch is not installed.
A folder may hold expected.safetensors: the tensors that state_dict() must give, in FP32.
"""

import os
import random
import sys

try:
    import torch
    import transformers
    from safetensors.torch import load_file
except ImportError as error:
    print(f"not installed: {error.name}")
    sys.exit(77)

END = "<|endoftext|>"  # the byte that no text has
TEXTS = ["", "In the beginning\n\n\tGod ", " leading", "ünï©ødé 漢字 🙂", "\x00\x01\x7f\xa0\xad",
         END]


def random_texts(count):
    generator = random.Random(1)
    ranges = [(0, 0x80), (0, 0x800), (0, 0xD800), (0xE000, 0x110000)]
    for _ in range(count):
        length = generator.randrange(60)
        yield "".join(chr(generator.randrange(*generator.choice(ranges))) for _ in range(length))


def check_weights(folder, model):
    expected = load_file(os.path.join(folder, "expected.safetensors"))
    state = {name: value.float() for name, value in model.state_dict().items()}
    for name, value in expected.items():
        if name not in state:
            yield f"{name}: transformers has no such tensor"
        elif not torch.equal(state[name], value):
            yield f"{name}: values differ"
    for name in sorted(set(state) - set(expected) - {"lm_head.weight"}):
        if state[name].count_nonzero() != 0:
            yield f"{name}: not expected"


def check_tokenizer(folder):
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    if len(tokenizer) != 256:
        yield f"vocabulary of {len(tokenizer)}"
    for text in [*TEXTS, *random_texts(200)]:
        ids = [255] if text == END else list(text.encode("utf-8"))
        if tokenizer(text)["input_ids"] != ids:
            yield f"encodes {text!r} as {tokenizer(text)['input_ids']}"
        if tokenizer.decode(ids) != text:
            yield f"decodes {text!r} as {tokenizer.decode(ids)!r}"


def check(folder):
    model, report = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, output_loading_info=True)
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        if report[kind]:
            yield f"{kind}: {report[kind]}"
    yield from check_weights(folder, model)
    logits = model(torch.tensor([[1, 2, 3]])).logits
    if logits.shape != (1, 3, model.config.vocab_size) or not logits.isfinite().all():
        yield f"logits of shape {tuple(logits.shape)}, or not finite"
    if os.path.exists(os.path.join(folder, "tokenizer.json")):
        yield from check_tokenizer(folder)


def main():
    transformers.utils.logging.set_verbosity_error()
    wrong = [f"{folder}: {text}" for folder in sys.argv[1:] for text in check(folder)]
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
