"""What must not end the interpreter or leave it waiting: forks, threads at its end, odd calls."""

import multiprocessing
import subprocess
import sys

import numpy as np
import pytest
from conftest import GOLDEN

import narrowgauge as ng

X = np.random.default_rng(1).normal(size=(300, 256)).astype(np.float32)


def sum_of_codes(_):
    return int(ng.quantize(X, "mxfp4", threads=2).codes.sum())


def test_forked_processes_compute():
    want = sum_of_codes(0)  # threads are running
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map_async(sum_of_codes, range(4)).get(timeout=120) == [want] * 4


def run(code, cwd):
    done = subprocess.run([sys.executable, "-c", code], cwd=cwd, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def test_threads_that_compute_when_the_interpreter_ends(tmp_path):
    code = (
        "import threading, time, numpy as np, narrowgauge as ng\n"
        "x = np.ones((300, 256), np.float32)\n"
        "def work():\n"
        "    while True: ng.quantize(x, 'mxfp4')\n"
        "for _ in range(3): threading.Thread(target=work, daemon=True).start()\n"
        "time.sleep(0.2)\n"
        "print('end')\n"
    )
    assert run(code, tmp_path) == (0, "end\n", "")


def test_ctrl_c_ends_a_generation(tmp_path):
    code = (
        "import os, signal, threading, narrowgauge as ng\n"
        f"model = ng.Model({str(GOLDEN / 'interop' / 'models' / 'llama' / 'hf')!r}, threads=1)\n"
        "threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()\n"
        "try: model.generate([1], tokens=10**9, ignore_eos=True)\n"
        "except KeyboardInterrupt: print(model.logits([1]).shape)\n"
    )
    assert run(code, tmp_path) == (0, "(1, 256)\n", "")


def test_a_run_is_not_trained_from_its_own_callback(run_file):
    trainer = ng.Trainer(run_file, {"train.steps": 2}, out="run")
    with pytest.raises(ng.Error, match="second time"):
        trainer.train(lambda line: trainer.train())


def test_calls_without_sense_are_refused(tmp_path):
    (tmp_path / "text.txt").write_text("some text " * 50)
    model = ng.Model(GOLDEN / "interop" / "models" / "llama" / "hf")
    q = ng.quantize(X, "mxfp4")
    for call in (
        lambda: ng.inspect([]),
        lambda: model.evaluate(tmp_path / "text.txt", batch=0),
        lambda: model.logits(5),
        lambda: ng.assemble(np.full((1, 32), 65537), "mxfp4", scale_codes=[127]),
        lambda: ng.assemble(np.full((1, 32), 1.5), "mxfp4", scale_codes=[127]),
        lambda: ng.assemble(np.ones((1, 32), int), "mxfp4", scale_codes=np.array([383])),
        lambda: ng.unpack(q.pack("fp4x2"), "mxfp4", "fp4x2", cols=-1, scale_codes=q.scale_codes),
        lambda: ng.quantize(X, "mxfp4", random_bits=0, rounding="stochastic"),
        lambda: ng.quantize(X, "mxfp4", seed=-1),
        lambda: ng.element("e4m3").decode(-1),
        lambda: ng.Tokenizer("a\0b"),
        lambda: ng.Tokenizer("\udcff"),
        lambda: ng.Tokenizer(""),
    ):
        with pytest.raises(ng.Error) as caught:
            call()
        assert "\n" not in str(caught.value)
    for wrong in (
        lambda: ng.quantize(X, "mxfp4", threads=1.5),
        lambda: ng.quantize(X, "mxfp4", along=0),
        lambda: ng.quantize(X, 3),
        lambda: ng.dequantize(X),
        lambda: ng.format("mxfp4", random_bits="x"),
        lambda: ng.Tokenizer("bytes").encode(3),
        lambda: model.generate("a", temperature="hot"),
    ):
        with pytest.raises(TypeError) as mistake:
            wrong()
        assert "\n" not in str(mistake.value)
