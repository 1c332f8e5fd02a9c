"""What compare measures of Hugging Face's tokenizers: seconds as JSON."""

import json
import os
import re
import sys
import time

THREADS = sys.argv[5] if sys.argv[1] == "train" else "1"
os.environ["RAYON_NUM_THREADS"] = THREADS
os.environ["TOKENIZERS_PARALLELISM"] = "false" if THREADS == "1" else "true"

from tokenizers import Tokenizer, models, pre_tokenizers, trainers  # noqa: E402: reads them


def text_of(path):
    with open(path, encoding="utf-8", errors="replace", newline="") as file:
        return file.read()


def encode(path, text_path, how):
    tokenizer = Tokenizer.from_file(path)
    text = text_of(text_path)
    documents = [text]
    if how == "paragraphs":
        documents = [part + "\n\n" for part in text.split("\n\n")]
        documents[-1] = documents[-1][:-2]
    begin = time.perf_counter()
    tokens = sum(len(tokenizer.encode(document, add_special_tokens=False).ids)
                 for document in documents)
    return {"seconds": time.perf_counter() - begin, "tokens": tokens}


def train(text_path, out, vocab, _threads):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=int(vocab), special_tokens=["<|endoftext|>"], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    # Where lines begin with letters GPT-2's pattern always has a border: several threads have
    # something to do, and the pieces are those of the whole text.
    documents = re.split(r"(?<=[!-~]\n)(?=[A-Za-z])", text_of(text_path))
    begin = time.perf_counter()
    tokenizer.train_from_iterator(documents, trainer)
    seconds = time.perf_counter() - begin
    tokenizer.save(out)
    return {"seconds": seconds}


print(json.dumps({"encode": encode, "train": train}[sys.argv[1]](*sys.argv[2:])))
