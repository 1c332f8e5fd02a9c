"""The blocks of docs/python.md and docs/torch.md run, one after the other."""

import importlib.util
import os
import re

import pytest
from conftest import ROOT


def blocks_of(page, language="python"):
    text = (ROOT / page).read_text()
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.M | re.S)


def run_blocks(page, least, language="python"):
    blocks = blocks_of(page, language)
    assert len(blocks) >= least
    names = {}
    for block in blocks:
        exec(compile(block, page, "exec"), names)


def test_blocks_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_blocks("docs/python.md", 7)
    assert (tmp_path / "runs" / "sums-2" / "model").is_dir()


def test_blocks_about_torch_run():
    pytest.importorskip("torch")
    run_blocks("docs/torch.md", 6)


def test_blocks_about_transformers_run(tmp_path, monkeypatch):
    for needed in ("torch", "transformers", "matplotlib"):
        if importlib.util.find_spec(needed) is None:
            pytest.skip(f"{needed} is not there: scripts/python-tests --torch")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.chdir(tmp_path)
    run_blocks("docs/torch.md", 4, "python transformers")
    made = set(os.listdir(tmp_path))
    assert {"losses.png", "model.gguf", "run"} <= made


@pytest.mark.parametrize("sign", ["-", "+"], ids=["before", "after"])
def test_the_script_of_the_trainer_runs(sign, tmp_path, monkeypatch):
    pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.chdir(tmp_path)
    config = transformers.LlamaConfig(vocab_size=64, hidden_size=64, intermediate_size=64,
                                      num_hidden_layers=2, num_attention_heads=2)  # fmt: skip
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained("mine")
    (block,) = blocks_of("docs/torch.md", "diff")
    script = [line[1:] for line in block.split("\n") if line[:1] in ("", " ", sign)]
    row = {"input_ids": list(range(16)), "labels": list(range(16))}
    names = {"data": [row] * 32}
    exec(compile("\n".join(script), "docs/torch.md", "exec"), names)
    assert names["trainer"].state.global_step == 4
    assert ("NVFP4" in repr(names["model"]).upper()) == (sign == "+")
    transformers.AutoModelForCausalLM.from_pretrained("tuned")
