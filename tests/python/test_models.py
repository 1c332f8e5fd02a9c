"""Model folders, tokenizers and files."""

import json
import shutil
import threading

import numpy as np
import pytest
from conftest import GOLDEN, tensors, write_tensors

import narrowgauge as ng

LLAMA = GOLDEN / "models" / "llama_tiny"


def test_logits_are_those_of_the_golden_file():
    golden = tensors(LLAMA / "reference.safetensors")
    model = ng.Model(LLAMA)
    ids = golden["tokens"][0][:, :-1]
    logits = model.logits(ids)
    assert logits.shape == golden["logits_f64"].shape and logits.dtype == np.float32
    # As tests/golden/README.md says of FP32 logits.
    assert np.abs(logits - golden["logits_f64"]).max() <= 1e-4
    assert np.array_equal(model.logits(ids[0].tolist()), logits[0])
    assert np.array_equal(model.logits(ids[0][:5]), logits[0][:5])  # later tokens change nothing
    narrow = ng.Model(LLAMA, recipe="mxfp4-all", threads=1).logits(ids[0])
    assert not np.array_equal(narrow, logits[0])
    assert model.config["hidden_size"] == 64


def test_adapters_stand_beside_a_base_by_name():
    adapters, base = GOLDEN / "lora" / "dora", GOLDEN / "models" / "qwen2_tiny"
    golden = tensors(adapters / "reference.safetensors")
    logits = ng.Model(adapters, base=base).logits(golden["tokens"][0][:, :-1])
    assert np.abs(logits - golden["logits"]).max() <= 1e-4
    with pytest.raises(ng.Error, match='no folder "org/qwen2_tiny"'):
        ng.Model(adapters)


def test_greedy_generation_is_exact():
    golden = tensors(LLAMA / "reference.safetensors")
    prompt, tokens = golden["greedy.prompt"][0], golden["greedy.tokens"][0]
    made = ng.Model(LLAMA).generate(prompt, tokens=16, temperature=0)
    assert made == tokens[-16:].tolist()


def lettered(folder, config):
    """The golden Llama with a letter for each token, as tests/support/lettered_model.h has it."""
    shutil.copytree(LLAMA, folder)
    vocab = {chr(0x4E00 + i): i for i in range(128)}
    tokenizer = {
        "version": "1.0", "added_tokens": [], "normalizer": None, "post_processor": None,
        "pre_tokenizer": {"type": "Metaspace", "prepend_scheme": "never", "split": False},
        "decoder": {"type": "Sequence", "decoders": [{"type": "Fuse"}]},
        "model": {"type": "BPE", "unk_token": chr(0x4E7F), "vocab": vocab, "merges": []},
    }  # fmt: skip
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    (folder / "chat_template.jinja").write_text("{{ messages }}")


def test_texts_begin_and_end_as_the_model_says(tmp_path):
    golden = tensors(LLAMA / "reference.safetensors")
    tokens = golden["greedy.tokens"][0].tolist()
    prompt, made = tokens[:8], tokens[8:]
    letters = "".join(chr(0x4E00 + i) for i in tokens)
    config = {"bos_token": letters[0], "add_bos_token": True, "eos_token": letters[9]}
    lettered(tmp_path / "m", config)
    (tmp_path / "m" / "generation_config.json").write_text(
        json.dumps({"eos_token_id": [made[1], made[3]], "top_k": 5})
    )
    model = ng.Model(tmp_path / "m")
    assert model.end_tokens == model.config["eos_token_id"] == [made[1], made[3]]
    assert model.tokenizer.text_begin == [model.tokenizer.bos_token] == prompt[:1]
    assert model.generate(prompt, tokens=16, temperature=0) == made[:2]
    assert model.generate(prompt, tokens=16, temperature=0, ignore_eos=True) == made
    assert model.generate(letters[1:8], tokens=16, temperature=0) == letters[8]
    assert model.generate(letters[:8], tokens=16, temperature=0) == letters[8], "not twice"
    whole = model.generate(letters[1:8], tokens=16, temperature=0, ignore_eos=True)
    assert whole == letters[8:]
    bare = model.generate(letters[1:8], tokens=16, temperature=0, ignore_eos=True, no_bos=True)
    assert bare != whole
    (tmp_path / "text.txt").write_text(letters[1:])
    assert model.evaluate(tmp_path / "text.txt")["tokens"] == 23
    assert model.evaluate(tmp_path / "text.txt", prefix_end=True)["tokens"] == 23
    assert model.evaluate(tmp_path / "text.txt", no_bos=True)["tokens"] == 22
    model.save(tmp_path / "saved", dtype="BF16")
    for name in ("config.json", "generation_config.json"):
        saved = json.loads((tmp_path / "saved" / name).read_text())
        assert saved["eos_token_id"] == [made[1], made[3]] and saved["bos_token_id"] == 0
    assert saved["top_k"] == 5
    assert (tmp_path / "saved" / "chat_template.jinja").read_text() == "{{ messages }}"


def test_threads_take_turns():
    model = ng.Model(LLAMA, threads=1)
    want = model.logits([1, 2, 3])
    wrong = []

    def work():
        for _ in range(5):
            if not np.array_equal(model.logits([1, 2, 3]), want):
                wrong.append(1)

    workers = [threading.Thread(target=work) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


def test_generation_is_the_programs(program):
    made = ng.Model(LLAMA).generate([1, 2, 3], tokens=12, seed=4)
    text = program("generate", LLAMA, "--prompt-ids", "1,2,3", "--tokens", 12, "--ids", "--seed", 4)
    assert made == [int(i) for i in text.split(",")]


def test_ids_that_are_none_are_refused():
    model = ng.Model(LLAMA)
    for ids, problem in (([], "empty"), ([128], "128"), ([-1], "-1"), ([0.5], "float64"),
                         (np.arange(1000) % 7, "1000")):  # fmt: skip
        with pytest.raises(ng.Error, match=problem):
            model.logits(ids)
    with pytest.raises(ng.Error, match="temperature"):
        model.generate([1], temperature=-1)


def test_a_folder_without_a_tokenizer_is_not_saved(tmp_path):
    with pytest.raises(ng.Error, match="tokenizer"):
        ng.Model(LLAMA).save(tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_bytes_are_a_tokenizer():
    tokenizer = ng.Tokenizer("bytes")
    assert tokenizer.vocab == 256
    assert tokenizer.encode("Añ") == [65, 195, 177]
    assert tokenizer.decode([65, 195, 177]) == "Añ"
    assert tokenizer.decode(np.array([195])) == "\ufffd"
    every = bytes(range(256))
    assert tokenizer.decode_bytes(tokenizer.encode(every)) == every


@pytest.mark.parametrize("name", ["gpt2", "nfkc", "unigram"])
def test_tokens_are_those_of_golden_files(name):
    tokenizer = ng.Tokenizer(GOLDEN / "tokenizers" / f"{name}.json")
    for case in json.loads((GOLDEN / "tokenizers" / f"{name}.cases.json").read_text()):
        assert tokenizer.encode(case["text"]) == case["ids"]
        assert tokenizer.decode(case["ids"]) == case["decoded"]


def test_inspect_is_the_programs(program, tmp_path):
    x = np.random.default_rng(1).normal(size=(16, 64)).astype(np.float32)
    write_tensors(tmp_path / "x.safetensors", {"x": x, "y": x * 100})
    file = tmp_path / "x.safetensors"
    made = ng.inspect(file, formats=["mxfp4", "nvfp4"])
    assert [t["name"] for t in made["files"][0]["tensors"]] == ["x", "y"]
    assert made == json.loads(program("inspect", file, "--format", "mxfp4,nvfp4", "--json"))
    assert ng.inspect([file], tensors="y") == json.loads(
        program("inspect", file, "--tensor", "y", "--json")
    )


def test_inspect_knows_gguf_and_token_files(program):
    file = GOLDEN / "interop" / "types" / "types.gguf"
    made = ng.inspect(file, "mxfp4")
    assert made == json.loads(program("inspect", file, "--format", "mxfp4", "--json"))
    shard = GOLDEN / "shards" / "bintok_v2_masks.bin"
    (facts,) = ng.inspect(shard)["files"]
    assert facts["token_file"]["kind"] == "bintok" and facts["token_file"]["has_mask"]
    assert facts["token_file"]["tokens"] > 0
