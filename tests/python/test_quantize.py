"""Arrays as narrow numbers: golden files, the program, memory, threads."""

import gc
import inspect
import sys
import threading

import numpy as np
import pytest
from conftest import GOLDEN, tensors, write_tensors

import narrowgauge as ng
from narrowgauge._arrays import floats_of, matrix_of

RNG = np.random.default_rng(5)
X = RNG.normal(size=(48, 96)).astype(np.float32)
FORMATS = ("mxfp4", "nvfp4", "fp8_e4m3", "mxfp6_e3m2", "int8", "uint4", "bf16", "float8_e5m2")


@pytest.mark.parametrize("short", ["e2m1", "e2m3", "e3m2", "e4m3", "e5m2", "int8"])
def test_blocks_of_the_golden_files(short):
    golden = tensors(GOLDEN / "mx" / f"mx_{short}.safetensors")
    bits = {"e2m1": "mxfp4", "e2m3": "mxfp6_e2m3", "e3m2": "mxfp6_e3m2", "int8": "mxint8"}
    name = bits.get(short, f"mxfp8_{short}")
    cases = {"normal_last", "lognormal", "ragged_last", "pow2_edge", "ties"}
    for case in cases & {name.partition(".")[0] for name in golden}:
        x = golden[f"{case}.x"]
        for rule in ("floor", "rceil"):
            key = case if rule == "floor" else f"{case}.{rule}"
            if f"{key}.scale" not in golden:  # one rule alone
                continue
            q = ng.quantize(x, name, scale_rule=rule)
            assert np.array_equal(q.scale_codes, golden[f"{key}.scale"]), key
            same = q.codes == golden[f"{key}.codes"].view(np.uint8)  # the sign of zero aside
            assert np.all(same | (q.dequantize() == 0)), key
        assert np.array_equal(ng.quantize(x, name).dequantize(), golden[f"{case}.dq"]), case
    turned = ng.quantize(golden["normal_axis0.x"], name, along="rows")
    assert np.array_equal(turned.dequantize(), golden["normal_axis0.dq"])


def test_nvfp4_of_the_golden_file():
    golden = tensors(GOLDEN / "nvfp4" / "nvfp4.safetensors")
    for case in ("normal", "lognormal", "ragged", "huge", "tiny"):
        for variant, block in (("te1d", "1x16"), ("te2d", "16x16")):
            q = ng.quantize(golden[f"{case}.x"], "nvfp4", block=block)
            assert np.array_equal(q.scale_codes, golden[f"{case}.{variant}.scale"])
            same = q.codes == golden[f"{case}.{variant}.codes"]
            assert np.all(same | (q.dequantize() == 0))
            assert q.tensor_scale == np.float32(1) / golden[f"{case}.encode_scale"][0]


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("rounding", ["nearest", "stochastic"])
def test_same_bits_as_the_program(program, tmp_path, name, rounding):
    for values in (X, X.astype(np.float64) * (1 + 2.0**-30)):
        write_tensors(tmp_path / "in.safetensors", {"x": values})
        program("cast", tmp_path / "in.safetensors", tmp_path / "out.safetensors", "--format", name,
                "--rounding", rounding, "--seed", 11)  # fmt: skip
        made = tensors(tmp_path / "out.safetensors")
        q = ng.quantize(values, name, rounding=rounding, seed=11)
        assert np.array_equal(q.codes, made["x.codes"])
        assert np.array_equal(q.dequantize(), made["x.values"])
        if "x.scale" in made:
            scales = q.scales if q.scale_codes is None else q.scale_codes
            assert np.array_equal(scales.reshape(-1), made["x.scale"].reshape(-1))
        if "x.tensor_scale" in made:
            assert q.tensor_scale == made["x.tensor_scale"][0]


def test_bits_depend_on_nothing_but_values():
    want = ng.quantize(X, "nvfp4", rounding="stochastic", threads=1)
    apart = np.zeros((48, 130), np.float32)
    apart[:, 10:106] = X
    forms = [X, X.copy(order="F"), X.astype(np.float64), X.tolist(), apart[:, 10:106]]
    forms += [X[::-1][::-1], np.repeat(X, 2, axis=1)[:, ::2], X.astype(">f4")]
    for form in forms:
        for threads in (1, 2, 5):
            q = ng.quantize(form, "nvfp4", rounding="stochastic", threads=threads)
            assert np.array_equal(q.codes, want.codes)
            assert np.array_equal(q.scale_codes, want.scale_codes)
    other = ng.quantize(X, "nvfp4", rounding="stochastic", seed=2)
    assert not np.array_equal(other.codes, want.codes)


def test_shapes():
    for shape in ((), (7,), (3, 0), (0, 5), (2, 3, 64), (2, 1, 3, 32)):
        x = RNG.normal(size=shape).astype(np.float32)
        for name in ("mxfp4", "fp8_e4m3", "float6_e2m3fn", "bf16"):
            q = ng.quantize(x, name)
            assert q.codes.shape == q.dequantize().shape == shape
            assert q.counts.values == x.size
    q = ng.quantize(RNG.normal(size=(2, 3, 64)), "mxfp4")
    assert q.scale_codes.shape == q.scales.shape == (2, 3, 2)
    assert ng.quantize(X, "float8_e4m3fn").scales is None
    assert ng.quantize(X, "int8").scale_codes is None
    assert ng.quantize(X, "uint8").zeros.shape == (48, 1)


def test_arrays_are_read_in_place_and_results_are_views():
    apart = np.zeros((48, 130), np.float32)
    for x in (X, X.reshape(4, 12, 96), apart[:, 10:106], X[::2], X[5]):
        read = matrix_of(floats_of(x))
        assert np.shares_memory(read, x) and read.size == x.size
    assert not np.shares_memory(matrix_of(floats_of(X.T)), X)
    q = ng.quantize(X, "mxfp4")
    assert np.shares_memory(q.codes, q.codes) and np.shares_memory(q.scales, q.scales)
    assert not q.codes.flags.writeable
    ml_dtypes = pytest.importorskip("ml_dtypes")
    assert np.shares_memory(q.as_ml_dtypes(), q.codes)
    assert q.as_ml_dtypes().dtype == ml_dtypes.float4_e2m1fn
    codes = q.codes
    want = codes.copy()
    del q
    gc.collect()
    assert np.array_equal(codes, want)  # they keep what they lie in


def test_ten_thousand_calls_leave_nothing_behind():
    x = np.ones((4, 32), np.float32)
    held = ng.quantize(x, "mxfp4").codes  # what a first call sets up
    before = sys.getrefcount(x), sys.getrefcount(None)
    for _ in range(10_000):
        held = ng.dequantize(ng.quantize(x, "mxfp4", threads=1), threads=1)
        del held
    gc.collect()
    assert sys.getrefcount(x) == before[0]
    assert abs(sys.getrefcount(None) - before[1]) < 100


def test_threads_of_python_compute_at_once():
    want = ng.quantize(X, "nvfp4").codes
    failures = []

    def work():
        for _ in range(50):
            q = ng.quantize(X, "nvfp4", threads=1)
            if not np.array_equal(q.codes, want) or not np.isfinite(ng.error(X, q).sqnr_db):
                failures.append(q)

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failures


def test_packing_and_back():
    for name, layout in (("mxfp4", "gguf"), ("nvfp4", "gguf"), ("mxfp4", "fp4x2"),
                         ("nvfp4", "safetensors"), ("mxfp6_e3m2", "safetensors"),
                         ("int4", "safetensors")):  # fmt: skip
        x = RNG.normal(size=(2, 3, 128)).astype(np.float32)
        q = ng.quantize(x, name)
        packed = q.pack(layout)
        scales = {} if layout == "gguf" else dict(scale_codes=q.scale_codes)
        if q.scale_codes is None:
            scales = dict(scales=q.scales)
        back = ng.unpack(packed, name, layout, tensor_scale=q.tensor_scale, **scales)
        assert np.array_equal(back.codes, q.codes) and packed.shape[:2] == (2, 3)
        assert np.array_equal(back.dequantize(), q.dequantize())
    assert ng.quantize(X[:, :33], "int4").pack("safetensors").shape == (48, 17)
    again = ng.assemble(q.codes, "int4", scales=q.scales)
    assert np.array_equal(again.dequantize(), q.dequantize())
    assert ng.quantize(X, "mxfp4").pack("gguf").shape == (48, 3 * 17)


def test_rows_of_nothing():
    codes = dict(scale_codes=np.zeros(0, np.uint8))
    for name, layout, scales in (("mxfp4", "fp4x2", codes), ("mxfp4", "gguf", {}),
                                 ("mxfp6_e3m2", "safetensors", codes)):  # fmt: skip
        for shape in ((3, 0), (2, 3, 0), (0,), (0, 0), (2, 0, 0)):
            packed = np.zeros(shape, np.uint8)
            back = ng.unpack(packed, name, layout, **scales)
            assert back.shape == shape and back.dequantize().shape == shape
            assert back.pack(layout).shape == shape
    assert ng.unpack(np.zeros((0, 16), np.uint8), "mxfp4", "fp4x2", **codes).shape == (0, 32)
    for name, width in (("mxfp4", 34), ("nvfp4", 36)):
        none = ng.quantize(np.zeros((0, 64), np.float32), name)
        assert none.pack("gguf").shape == (0, width) and none.pack("fp4x2").shape == (0, 32)
        assert ng.unpack(none.pack("gguf"), name, "gguf").shape == (0, 64)


def test_products(program, tmp_path):
    a, b = RNG.normal(size=(33, 96)), RNG.normal(size=(20, 96)).astype(np.float32)
    a = a.astype(np.float32)
    c = ng.matmul(a, b, a_format="nvfp4", b_format="mxfp8_e4m3", rounding="stochastic", seed=3)
    assert c.shape == (33, 20) and np.abs(c - a @ b.T).max() < 10
    qa, qb = ng.quantize(a, "mxfp4"), ng.quantize(b, "mxfp4")
    exact = qa.dequantize().astype(np.float64) @ qb.dequantize().astype(np.float64).T
    # K = 96 sums in FP32 of exact products within blocks [formats.md 9]
    assert np.abs(ng.matmul(qa, qb) - exact).max() <= 1e-6 * np.abs(exact).max() * 4
    turned = ng.matmul(a, b.T, a_format="mxfp4", b_format="mxfp4", transpose_b=True)
    assert np.array_equal(turned, ng.matmul(qa, qb))
    write_tensors(tmp_path / "in.safetensors", {"a": a, "b": b})
    file = tmp_path / "in.safetensors"
    program("matmul", f"{file}:a", f"{file}:b", "--a", "nvfp4", "--b", "mxfp8_e4m3", "--rounding",
            "stochastic", "--seed", 3, "--out", tmp_path / "c.safetensors")  # fmt: skip
    assert np.array_equal(tensors(tmp_path / "c.safetensors")["C"], c)
    tiles = ng.matmul(a, b, a_format="bf16", b_format="mxfp4", sum="tile32")
    program("matmul", f"{file}:a", f"{file}:b", "--a", "bf16", "--b", "mxfp4", "--sum", "tile32",
            "--out", tmp_path / "c.safetensors")  # fmt: skip
    assert np.array_equal(tensors(tmp_path / "c.safetensors")["C"], tiles)
    assert not np.array_equal(tiles, ng.matmul(a, b, a_format="bf16", b_format="mxfp4"))


def test_errors_are_those_of_the_definition():
    q = ng.quantize(X, "mxfp4")
    x = X.astype(np.float64)
    e = q.dequantize() - x
    errors = ng.error(X, q)
    assert errors.values == X.size and errors.max_abs == pytest.approx(np.abs(e).max())
    assert errors.sqnr_db == pytest.approx(-10 * np.log10((e**2).sum() / (x**2).sum()))
    assert ng.error(X, X).sqnr_db == np.inf


def test_integers_and_formats_of_products():
    whole = np.array([[2**24 + 1, -(2**24) - 1, 3, 2**31 - 1] * 8], np.int64)
    for dtype in (np.int32, np.int64):  # FP32 on the way would make a tie of the first
        codes = ng.quantize(whole.astype(dtype), "bfloat16").codes
        assert np.array_equal(codes, ng.quantize(whole.astype(np.float64), "bfloat16").codes)
    a = ng.matmul(X, X, a_format=ng.format("mxfp4"), b_format="nvfp4")
    assert np.array_equal(a, ng.matmul(X, X, a_format="mxfp4", b_format="nvfp4"))


def test_fields_follow_the_table_of_keys():
    x = np.random.default_rng(7).standard_normal((32, 64), np.float32)
    q = ng.quantize(x, "nvfp4", fit=(6, 4), select="mse", scale_max=256)
    assert (q.format.fit, q.format.select, q.format.scale_max) == ([6, 4], "mse", 256)
    assert q.format == ng.format("nvfp4", fit="6,4", scale_max=256.0)
    assert ng.error(x, q).mse < ng.error(x, ng.quantize(x, "nvfp4")).mse
    assert ng.format("nvfp4").fit == [] and ng.format("nvfp4", fit=5).fit == [5]
    assert {"fit", "scale_rule", "random_bits"} < set(inspect.signature(ng.quantize).parameters)
    assert "scale_rule: how an e8m0 scale" in ng.format.__doc__
    with pytest.raises(ng.Error, match="scale_max"):
        ng.quantize(x, "nvfp4", scale_max=500)
    with pytest.raises(TypeError, match="unexpected keyword argument 'fits'"):
        ng.quantize(x, "nvfp4", fits=6)
