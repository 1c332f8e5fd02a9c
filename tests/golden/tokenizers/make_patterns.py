"""Makes, beside itself, tokenizers that cut by digits, by ranges of characters that are not ASCII,
and that normalize, with cases; and unicode.json.

    pip install tokenizers==0.23.3 && python make_patterns.py

The BPE is trained on whole lines without a pattern, so that tokens reach across every place where a
pattern has to cut; the pattern is set afterwards. `NAME.cases.json` holds texts, ids without special
tokens added, and decoded texts. `unicode.json` has, of every character alone and between others, a
checksum (FNV-1a, 64 bits) of what each normalization form makes of them, and the characters that
Digits takes for digits, as runs."""

import json
import random
import re
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

HERE = Path(__file__).resolve().parent
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
QWEN35 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}|"
          r" ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
V3 = ("[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|"
      " ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+")
CJK = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
V3_CJK = "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"
MARKS = "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+"


def deepseek_letters():
    """As it stands in the source that reads it."""
    source = (HERE / "../../../src/tokenizer/known_patterns.cc").read_text()
    text = re.search(r"kDeepSeekLetters =\n(.*?);", source, re.S).group(1)
    text = "".join(re.findall(r'"(.*)"', text)).replace("\\\\", "\\")
    return re.sub(r"\\u(.{4})|\\U(.{8})", lambda m: chr(int(m.group(1) or m.group(2), 16)), text)


def split(pattern):
    return pre_tokenizers.Split(Regex(pattern), "isolated", False)


def sequence(*steps):
    return pre_tokenizers.Sequence([split(s) if isinstance(s, str) else s for s in steps] +
                                   [pre_tokenizers.ByteLevel(False, use_regex=False)])


def each_digit():
    return pre_tokenizers.Digits(individual_digits=True)


TOKENIZERS = {
    "starcoder": (None, pre_tokenizers.Sequence([each_digit(), pre_tokenizers.ByteLevel(False)])),
    "command-r": ("NFC", pre_tokenizers.Sequence([each_digit(), pre_tokenizers.ByteLevel(False)])),
    "qwen35": ("NFC", sequence(QWEN35)),
    # \p{N}+ as llama.cpp has it; DeepSeek's file has Digits, and no token of several.
    "deepseek-llm": (None, sequence("[\r\n]", deepseek_letters(), MARKS, r"\s+$", CJK, r"\p{N}+")),
    "deepseek-coder": (None, sequence("[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", CJK, each_digit())),
    "deepseek-v3": (None, sequence(r"\p{N}{1,3}", V3_CJK, V3)),
    "mixed": (None, sequence("[^\u00e9\\s\u4e00-\u9fff]+|\u4e00?[\u00c0-\u024f]|'[sS]|\\S\u0300*",
                             pre_tokenizers.Digits(False))),
    "nfkc": ("NFKC", pre_tokenizers.ByteLevel(False)),
}


def characters(rng):
    """What training texts and cases are made of: characters and words that tell patterns apart."""
    ranges = [(0x20, 0x7E)] * 6 + [(0xA0, 0x24F), (0x300, 0x36F), (0x370, 0x52F), (0x531, 0x587),
              (0x5D0, 0x6FF), (0x900, 0x97F), (0x10A0, 0x10FF), (0x1100, 0x11FF), (0x13A0, 0x13FF),
              (0x1E00, 0x1FFF), (0x2000, 0x206F), (0x2070, 0x218F), (0x2460, 0x24FF),
              (0x2C00, 0x2DFF), (0x3000, 0x30FF), (0x3200, 0x33FF), (0x4DF0, 0x4E20),
              (0x9F90, 0x9FFF), (0xA640, 0xA7FF), (0xAB30, 0xABBF), (0xAC00, 0xD7FF),
              (0xF900, 0xFAFF), (0xFB00, 0xFB4F), (0xFF00, 0xFFEF), (0x10400, 0x104FF),
              (0x11DE0, 0x11DE9), (0x16FF4, 0x16FF6), (0x1D400, 0x1D7FF), (0x1E030, 0x1E06D),
              (0x1F600, 0x1F64F), (0x20000, 0x20010), (0x2F800, 0x2FA1D), (0x1CCD6, 0x1CCF9)]
    first, last = rng.choice(ranges)
    return chr(rng.randint(first, last))


def lines(rng, count):
    words = ["I'll", "don't", "DON'T", "it\u017fs", "  ", "\t", " \u00a0", "1895", "12", "\u0664\u0665",
             "\u4f60\u597d", "\u4e16\u754c", "\u6f22\u5b57\u304b\u306a\u30ab\u30ca", "\ud55c\uad6d\uc5b4", "\uff01\uff0c\u3002",
             "\u201cquoted\u201d", "na\u00efve", "e\u0301", "\u0395\u03bb\u03bb\u03ac\u03b4\u03b1", "\u0420\u043e\u0441\u0441\u0438\u044f",
             "\ufb01\u2460\u33a1\uff21\uff42", "\u0915\u094d\u0937\u093f", "(x+=1);", "$a<=b|c^~`", "http://a.b/c?d=e", "\U0001f600",
             "\u00c0\u00e9\u4e00\u00c1", "'S", "\u1f7d", "\u212a\u2126"]
    made = []
    for _ in range(count):
        parts = []
        for _ in range(rng.randint(1, 12)):
            parts.append(rng.choice(words) if rng.random() < 0.6 else characters(rng))
            if rng.random() < 0.4:
                parts.append(rng.choice([" ", " ", "  ", "\n", "\r\n", "\u3000"]))
        made.append("".join(parts))
    return made


def tokenizer_of(name, texts):
    form, pre = TOKENIZERS[name]
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(False, use_regex=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=700, show_progress=False, special_tokens=["<|end|>"],
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    made.train_from_iterator(texts, trainer)
    made.pre_tokenizer = pre
    if form:
        made.normalizer = getattr(normalizers, form)()
    return made


def fnv(texts):
    value = 0xCBF29CE484222325
    for text in texts:
        for byte in text.encode() + b"\xff":
            value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def unicode_facts():
    points = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    facts = {}
    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        normalizer = getattr(normalizers, form)()
        facts[form] = {
            "alone": fnv(normalizer.normalize_str(chr(c)) for c in points),
            "between": fnv(normalizer.normalize_str("e" + chr(c) + "\u0323\u0301\u1161")
                           for c in points)}
    digits, runs = pre_tokenizers.Digits(False), []
    for c in points:
        is_digit = len(digits.pre_tokenize_str("a" + chr(c))) > 1
        if is_digit and runs and runs[-1][1] == c - 1:
            runs[-1][1] = c
        elif is_digit:
            runs.append([c, c])
    return facts | {"digits": runs}


def main():
    rng = random.Random(20261127)
    training = lines(rng, 1500) + (HERE / "emma.txt").read_text()[:15000].split("\n")
    old = [case["text"] for case in json.loads((HERE / "qwen.cases.json").read_text())][:32]
    cases = old + lines(rng, 40) + ["".join(characters(rng) for _ in range(30)) for _ in range(15)]
    for name in TOKENIZERS:
        tokenizer = tokenizer_of(name, training)
        path = HERE / f"{name}.json"
        path.write_text(json.dumps(json.loads(tokenizer.to_str()), ensure_ascii=False) + "\n")
        tokenizer = Tokenizer.from_file(str(path))
        made = []
        for text in cases:
            ids = tokenizer.encode(text, add_special_tokens=False).ids
            made.append({"text": text, "ids": ids,
                         "decoded": tokenizer.decode(ids, skip_special_tokens=False)})
        (HERE / f"{name}.cases.json").write_text(json.dumps(made) + "\n")
    (HERE / "unicode.json").write_text(json.dumps(unicode_facts()) + "\n")


main()
