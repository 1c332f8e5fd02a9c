"""What is wrong is said in one line, by ng.Error."""

import pickle

import numpy as np
import pytest

import narrowgauge as ng

X = np.ones((4, 32), np.float32)
CASES = [
    (lambda: ng.quantize(X, "mxfp5"), 'unknown "mxfp5"', 'did you mean "mxfp4"'),
    (lambda: ng.quantize(X, "mxfp4", scale_rule="up"), "up", "floor"),
    (lambda: ng.quantize(X, "mxfp4", rounding="down"), "down", "stochastic"),
    (lambda: ng.quantize(X, "mxfp4", along="depth"), "depth", "cols"),
    (lambda: ng.quantize(X, "mxfp4", threads=-1), "-1", "0"),
    (lambda: ng.quantize(X, "mxfp4", hadamard=20), "20", "16"),
    (lambda: ng.quantize(X, "fp32"), "nothing to round", "16 bits"),
    (lambda: ng.quantize(X.astype(complex), "mxfp4"), "complex128", "numbers"),
    (lambda: ng.quantize(X, "mxfp4", tensor=1 << 20), "1048576", "below"),
    (lambda: ng.element("e9m9"), "", ""),
    (lambda: ng.element("e4m3").decode(256), "256", "below 256"),
    (lambda: ng.matmul(X, X[:, :16]), "(4, 16) beside (4, 32)", "transpose_b"),
    (lambda: ng.matmul(X, X, a_format="mxfp4", b_format="{format = 'mxfp5'}"), "mxfp5", "mxfp4"),
    (lambda: ng.matmul(X, X, sum="tile"), "tile", "tile32"),
    (lambda: ng.matmul(X, X, sum="tile32"), "BF16", "chain"),
    (lambda: ng.error(X, X[:2]), "(2, 32)", "one shape"),
    (lambda: ng.assemble(np.full((1, 32), 16), "mxfp4", scale_codes=[1]), "code 16", "below 16"),
    (lambda: ng.quantize(X, "int8").pack("gguf"), "int8", "mxfp4"),
    (lambda: ng.quantize(X, "mxfp4").pack("tar"), "tar", "gguf"),
    (lambda: ng.inspect("nowhere.safetensors"), "", ""),
    (lambda: ng.Recipe("nvfp5"), "nvfp5", "nvfp4"),
    (lambda: ng.Recipe("nvfp4", {"linear.fprop.inputs": "mxfp4"}), "", "linear.fprop.input"),
    (lambda: ng.Tokenizer("nowhere"), "no such file", "bytes"),
    (lambda: ng.Model("nowhere"), "", ""),
    (lambda: ng.Trainer("nowhere.toml"), "", ""),
]


@pytest.mark.parametrize("case", CASES)
def test_says_what_is_wrong_and_what_would_be_right(case):
    call, problem, remedy = case
    with pytest.raises(ng.Error) as caught:
        call()
    error = caught.value
    assert isinstance(error, ValueError)
    assert problem in f"{error.key} {error.problem}" and remedy in error.remedy
    parts = [p for p in (error.place, error.key, error.problem, error.remedy) if p]
    assert str(error) == ": ".join(parts) and "\n" not in str(error) and "--" not in error.key
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.remedy) == (str(error), error.remedy)


def test_other_mistakes_are_pythons():
    with pytest.raises(TypeError, match="no field 'rounded'"):
        ng.format("mxfp4", rounded="up")
    with pytest.raises(TypeError, match="beside a Format"):
        ng.quantize(X, ng.format("mxfp4"), rounding="stochastic")
    with pytest.raises(TypeError):
        ng.quantize(X, 4)
    assert issubclass(ng.Diverged, ng.Error)
