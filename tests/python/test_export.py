"""Models for other programs, and tokenizers: what the program writes, byte for byte."""

import hashlib
import logging

import numpy as np
import pytest
from conftest import GOLDEN, tensors

import narrowgauge as ng

LLAMA = GOLDEN / "interop" / "models" / "llama"


def sums_of(path):
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    return {f.name.partition(".")[0]: hashlib.sha256(f.read_bytes()).hexdigest() for f in files}


@pytest.mark.parametrize("name", ["f32", "bf16", "q8_0", "mxfp4", "nvfp4"])
def test_gguf_files_are_those_of_the_program(program, tmp_path, name):
    made, said = tmp_path / "a.gguf", tmp_path / "b.gguf"
    assert ng.Model(LLAMA / "hf").export(made, name, keep={"blk.0.ffn_*": "bf16"}) is None
    program("export", LLAMA / "hf", said, "--to", "gguf", "--type", name, "--keep",
            "blk.0.ffn_*=bf16")  # fmt: skip
    assert made.read_bytes() == said.read_bytes()
    assert ng.Model(made).logits([1, 2, 3]).shape == (3, 256)


@pytest.mark.parametrize("name", ["bf16", "nvfp4", "mxfp8", "fp8_channel", "fp8_fine", "modelopt"])
def test_folders_are_those_of_the_program(program, tmp_path, name, caplog):
    block = {"block": (32, 32)} if name == "fp8_fine" else {}
    words = ["--block", "32x32"] if block else []
    with caplog.at_level(logging.WARNING):
        ng.Model(LLAMA / "hf").export(tmp_path / "a", name, **block)
    assert any("vLLM" in r.message for r in caplog.records) == (name in ("nvfp4", "modelopt"))
    program("export", LLAMA / "hf", tmp_path / "b", "--to", "hf", "--type", name, *words)
    assert sums_of(tmp_path / "a") == sums_of(tmp_path / "b")
    want = tensors(LLAMA / "reference.safetensors")
    if f"logits.{name}" in want:  # FP32 sums in another order than PyTorch's [interop.md 6]
        logits = ng.Model(tmp_path / "a").logits(want["ids"].reshape(-1))
        assert np.abs(logits - want[f"logits.{name}"].reshape(logits.shape)).max() <= 1e-5


def test_trained_codes_are_those_of_the_program(program, tmp_path):
    made, said = tmp_path / "a.gguf", tmp_path / "b.gguf"
    recipe = ng.Recipe("nvfp4-all", {"linear.fprop.input.rounding": "nearest"})
    ng.Model(LLAMA / "hf").export(made, "nvfp4", weights="trained", recipe=recipe)
    program("export", LLAMA / "hf", said, "--to", "gguf", "--type", "nvfp4", "--weights", "trained",
            "--recipe", "nvfp4-all")  # fmt: skip
    assert made.read_bytes() == said.read_bytes()
    assert made.read_bytes() != (LLAMA / "nvfp4.gguf").read_bytes()  # whose blocks are 1 x 16


def test_what_does_not_fit_is_refused_and_nothing_written(tmp_path):
    model, out = ng.Model(LLAMA / "hf"), tmp_path / "a.gguf"
    cases = [
        (dict(type="fp8_block"), "type"),
        (dict(type="q8_0", to="onnx"), "to"),
        (dict(type="q8_0", weights="mine"), "weights"),
        (dict(type="nvfp4", weights="trained"), "weights trained"),
        (dict(type="nvfp4", recipe="nvfp4-all"), "recipe"),
        (dict(type="q8_0", keep={"nothing.*": "bf16"}), "nothing"),
        (dict(type="q8_0", block=(1, 1)), "block"),
        (dict(type="bf16", to="hf", keep={"a": "bf16"}), "keep"),
        (dict(type="fp8_fine", to="hf", block="big"), "block"),
        (dict(type="q8_0", share_scales=True), "share_scales"),
    ]
    for words, key in cases:
        with pytest.raises(ng.Error, match=key) as caught:
            model.export(out, **words)
        assert "--" not in str(caught.value)
        assert not list(tmp_path.iterdir())
    with pytest.raises(TypeError, match="keep"):
        model.export(out, "q8_0", keep=["blk.0.*"])
    with pytest.raises(ng.Error, match="is the input"):
        model.save(LLAMA / "hf")


def test_trained_tokenizers_are_those_of_the_program(program, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("the narrow gauge of numbers goes over hill and dale " * 20)
    made = ng.train_tokenizer(text, 300, "llama3", out=tmp_path / "a.json", threads=2)
    program("tokenizer", "train", text, tmp_path / "b.json", "--vocab", 300, "--pattern", "llama3")
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    ids = made.encode("over the hill<|endoftext|>")
    assert made.decode(ids) == "over the hill<|endoftext|>" and ids[-1] == made.end_token == 0
    assert made.encode("<|endoftext|>") == [0]
    assert 0 not in made.encode("<|endoftext|>", special_tokens="text")
    with pytest.raises(ng.Error, match="special_tokens"):
        made.encode("", special_tokens="ignored")
    ng.train_tokenizer([text], 300, "llama3").save(tmp_path / "folder")
    assert ng.Tokenizer(tmp_path / "folder").encode("over the hill<|endoftext|>") == ids
    plain = ng.train_tokenizer(text, size=300, special="over")
    assert plain.end_token is None and plain.encode("over")[0] == 0


def test_bad_trainings_of_a_tokenizer_are_refused(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("abc " * 100)
    cases = [([], 300, {}), (text, 3, {}), (text, 300, {"pattern": "mine"}),
             (text, 300, {"min_frequency": -1}), (text, 300, {"special": [""]}),
             (text, 300, {"out": text}), (text, 300, {"out": ""}), (text, 1 << 40, {}),
             (tmp_path / "nowhere", 300, {})]  # fmt: skip
    for files, size, words in cases:
        with pytest.raises(ng.Error):
            ng.train_tokenizer(files, size, **words)
    assert [p.name for p in tmp_path.iterdir()] == ["text.txt"] and text.stat().st_size == 400
