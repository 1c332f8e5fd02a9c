"""Runs: the program's bits, and how Python hears and stops them."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import narrowgauge as ng


def sha256(path):
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def lines_of(folder):
    """Of a run that may go on: what is behind the last line end is still being written."""
    written, _, _ = (Path(folder) / "metrics.jsonl").read_text().rpartition("\n")
    return [json.loads(line) for line in written.splitlines()]


def test_twenty_steps_end_in_the_bits_of_the_program(program, run_file):
    heard = []
    trainer = ng.Trainer(run_file, out="python")
    assert trainer.plan["steps"] == 20 and trainer.plan["recipe"] == "mxfp4-sr-rht"
    assert trainer.memory["total"] < trainer.memory["fp32_total"]
    result = trainer.train(progress=heard.append)
    assert heard == lines_of("python")
    assert result["steps"] == 20 and not result["interrupted"] and result["sample"]
    assert result["validation"]["step"] == 20 and Path("python/report.html").exists()
    program("train", run_file, "--out", "program")
    made = sha256("python/model/model.safetensors")
    assert made == sha256("program/model/model.safetensors")
    model = ng.Model(result["model"])
    loss = model.evaluate("text.txt")["loss"]
    assert loss == model.evaluate("text.txt")["loss"]
    said = json.loads(program("eval", "program/model", "--data", "text.txt", "--json"))
    assert loss == said["loss"]
    assert len(model.generate("the ", tokens=8)) > 0
    model.save("copy")
    assert sha256("copy/model.safetensors") == made
    with pytest.raises(ng.Error, match="second time"):
        trainer.train()


def test_evaluation_says_what_the_program_does(program, run_file):
    ng.Trainer(run_file, {"train.steps": 1}, out="run").train()
    lines = [json.dumps({"text": f"{n} and {n + 1}<|endoftext|>"}) for n in range(40)]
    Path("lines.jsonl").write_text("\n".join(lines))
    scored = [json.dumps({"text": f"{n}", "score": n}) for n in range(40)]
    Path("scored.jsonl").write_text("\n".join(scored))
    program("tokenize", "text.txt", "ids.u16", "--tokenizer", "bytes", "--as", "uint16")
    model = ng.Model("run/model")
    for data, keywords, flags in [
        ("lines.jsonl", {"prefix_end": True}, ["--prefix-end"]),
        ("lines.jsonl", {"document_mask": True}, ["--document-mask"]),
        ("lines.jsonl", {"special_tokens": "text"}, ["--special-tokens", "text"]),
        ("ids.u16", {"tokens": "uint16"}, ["--from", "uint16"]),
    ]:
        said = json.loads(program("eval", "run/model", "--data", data, "--json", *flags))
        assert model.evaluate(data, **keywords) == said
        assert keywords.get("tokens") or model.evaluate(data)["loss"] != said["loss"]
    said = json.loads(
        program("eval", "run/model", "--data", "scored.jsonl", "--json", "--ignore-keys", "score")
    )
    assert model.evaluate("scored.jsonl", ignored_keys="score") == said
    with pytest.raises(ng.Error, match="score: 0, a key that is not read here: .*ignored_keys"):
        model.evaluate("scored.jsonl")
    with pytest.raises(ng.Error, match="tokens"):
        model.evaluate("ids.u16", tokens="uint8")


def test_a_text_shorter_than_the_context_trains(run_file):
    Path("short.txt").write_text("nine text")
    short = {"data.train": "short.txt", "data.validation": "short.txt", "train.steps": 2}
    result = ng.Trainer(run_file, short | {"train.length": 8}, out="short").train()
    assert result["steps"] == 2 and result["sample"].startswith("nine tex")
    with pytest.raises(ng.Error, match="9 tokens for training: at least 10"):
        ng.Trainer(run_file, short | {"train.length": 9}, out="none")


def test_ctrl_c_ends_the_opening_of_texts(run_file):
    Path("large.txt").write_text("a" * (1 << 25))  # one word: a thread takes seconds
    tokenizer = Path(__file__).parent.parent / "golden/tokenizers/gpt2.json"
    threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        ng.Trainer(run_file, {"data.train": "large.txt", "data.tokenizer": tokenizer}, out="run")
    assert not Path("run").exists()


def test_settings_and_recipes(program, run_file):
    recipe = ng.Recipe("nvfp4", {"linear.fprop.input.rounding": "stochastic"})
    settings = {"train": {"steps": 2, "validate_every": 0}, "data.train": [Path("text.txt")]}
    result = ng.Trainer(run_file, settings, recipe=recipe, out="changed").train()
    assert result["steps"] == 2
    assert recipe.hash in Path("changed/run.toml").read_text()
    # What the run has written is a run of its own.
    program("train", "changed/run.toml", "--out", "again")
    assert sha256("changed/model/model.safetensors") == sha256("again/model/model.safetensors")
    result = ng.Trainer(run_file, {"train.steps": 1}, recipe="fp32").train()
    assert result["out"] == "runs/run" and Path(result["model"]).is_dir()


def test_false_stops_and_resume_goes_on(run_file):
    def until_seven(line):
        return line.get("step") != 7 or "loss" not in line

    result = ng.Trainer(run_file, out="halves").train(progress=until_seven)
    assert result["interrupted"] and result["steps"] == 7 and result["model"] is None
    assert Path("halves/checkpoints/step-00000007").is_dir()
    with pytest.raises(ng.Error, match="already holds a run"):
        ng.Trainer(run_file, out="halves").train()
    assert ng.Trainer(run_file, out="halves", resume=True).train()["steps"] == 20
    ng.Trainer(run_file, out="whole").train()
    same = [sha256(f"{run}/model/model.safetensors") for run in ("halves", "whole")]
    assert same[0] == same[1]


def test_an_exception_comes_out_unchanged_after_a_clean_stop(run_file):
    class Mine(Exception):
        pass

    mine = Mine("at step 3")

    def progress(line):
        if line.get("step") == 3:
            raise mine

    with pytest.raises(Mine) as caught:
        ng.Trainer(run_file, out="raised").train(progress=progress)
    assert caught.value is mine and caught.traceback
    assert Path("raised/checkpoints/step-00000003").is_dir()
    assert not Path("raised/model").exists()


def test_ctrl_c_finishes_the_step_and_its_checkpoint(run_file):
    def progress(line):
        if line.get("step") == 4 and "loss" in line:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        ng.Trainer(run_file, out="stopped").train(progress=progress)
    assert Path("stopped/checkpoints/step-00000004").is_dir()
    assert lines_of("stopped")[-1]["event"] == "interrupted"


def test_ctrl_c_from_outside(run_file):
    """A process of its own, without a callback."""
    code = (
        "import narrowgauge as ng\n"
        "try:\n"
        "    t = ng.Trainer('run.toml', {'train.steps': 100000}, out='outside')\n"
        "    print('begin', flush=True)\n"
        "    t.train()\n"
        "except KeyboardInterrupt:\n"
        "    print('stopped')\n"
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout.readline() == "begin\n"
        while not Path("outside/metrics.jsonl").exists() or len(lines_of("outside")) < 3:
            assert child.poll() is None
        child.send_signal(signal.SIGINT)
        assert child.communicate()[0] == "stopped\n" and child.returncode == 0
    finally:
        child.kill()
    steps = [line["step"] for line in lines_of("outside") if "loss" in line]
    assert Path(f"outside/checkpoints/step-{steps[-1]:08}").is_dir()


def test_a_run_that_diverges(run_file):
    settings = {"train.lr": 1000, "train.clip": 0, "train.warmup": 0}
    with pytest.raises(ng.Diverged) as caught:
        ng.Trainer(run_file, settings, recipe="fp32", out="lost").train()
    assert caught.value.step >= 1 and "steps in a row" in caught.value.problem


def test_another_thread_may_train(run_file):
    threads = []

    def train():
        ng.Trainer(run_file, {"train.steps": 2}, out="thread").train(
            lambda line: threads.append(threading.current_thread())
        )

    worker = threading.Thread(target=train)
    worker.start()
    worker.join()
    assert set(threads) == {worker}


def test_notices_are_logged(run_file, caplog):
    ng.Trainer(run_file, {"train.steps": 1}, recipe="nvfp4-sr-forward", out="noted").train()
    assert any("stochastic" in record.message for record in caplog.records)


def test_wrong_keys_name_their_place(run_file):
    with pytest.raises(ng.Error, match="train.step"):
        ng.Trainer(run_file, {"train.stepz": 3})
    with pytest.raises(TypeError, match="object in a setting"):
        ng.Trainer(run_file, {"train.steps": object()})
    with pytest.raises(ng.Error, match="nowhere"):
        ng.Trainer(run_file, {"data.train": "nowhere"})
    assert not Path("runs").exists()
