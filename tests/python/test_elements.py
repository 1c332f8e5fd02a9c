"""Elements against golden files and, code by code, against ml_dtypes."""

import numpy as np
import pytest
from conftest import GOLDEN, tensors

import narrowgauge as ng

CASTS = sorted(p.stem for p in (GOLDEN / "casts").glob("*.safetensors") if p.stem != "random_bits")


def same_values(a, b):
    """Equal bits, but any NaN is one."""
    a, b = np.asarray(a, np.float32), np.asarray(b, np.float32)
    nan = np.isnan(a) & np.isnan(b)
    return np.array_equal(np.where(nan, 0, a.view(np.uint32)), np.where(nan, 0, b.view(np.uint32)))


@pytest.mark.parametrize("name", CASTS)
def test_every_code_and_cast_of_the_golden_files(name):
    golden = tensors(GOLDEN / "casts" / f"{name}.safetensors")
    element = ng.element(name)
    assert same_values(element.values(), golden["decode"])
    if name == "float8_e8m0fnu":  # linear rounding there, saturation here
        return
    finite = ~np.isnan(golden["grid.x"])
    x = golden["grid.x"][finite]
    q = ng.quantize(x, name, overflow="saturate")
    assert np.array_equal(q.codes, golden["grid.codes_sat"][finite])
    assert q.codes.dtype == (np.uint8 if element.bits <= 8 else np.uint16)


@pytest.mark.parametrize("name", CASTS)
def test_codes_are_those_of_ml_dtypes(name):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    element = ng.element(name)
    dtype = np.dtype(getattr(ml_dtypes, name, name))
    assert dtype.name == element.name
    codes = np.arange(element.code_count, dtype=np.uint8 if element.bits <= 8 else np.uint16)
    values = codes.view(dtype).astype(np.float32)
    assert same_values(element.values(), values)
    assert [element.decode(int(c)) for c in codes[:300]] == pytest.approx(
        values[:300].tolist(), abs=0, rel=0, nan_ok=True
    )
    real = ~np.isnan(values) & ~np.isinf(values)
    q = ng.quantize(values[real], name)  # every code is its own rounding, and comes back
    assert np.array_equal(q.codes, codes[real])
    assert np.array_equal(q.as_ml_dtypes().astype(np.float32), values[real])
    given = codes.view(dtype)[real]
    assert same_values(ng.dequantize(ng.quantize(given, "float16" if dtype != "bfloat16"
                                                 and element.bits <= 8
                                                 and name != "float8_e8m0fnu" else name)),
                       values[real])


def test_one_value():
    e4m3 = ng.element("e4m3")
    assert e4m3 == ng.element("float8_e4m3fn") and e4m3 != ng.element("e5m2")
    assert (e4m3.name, e4m3.short_name, e4m3.bits, e4m3.max) == ("float8_e4m3fn", "e4m3", 8, 448)
    assert (e4m3.encode(0.3), e4m3.decode(42)) == (42, 0.3125)
    assert e4m3.encode(1e9) == 0x7E and e4m3.encode(1e9, overflow="special") == 0x7F
    e2m1 = ng.element("e2m1")
    ups = [e2m1.encode(2.25, rounding="stochastic", random_bits=8, random=r) for r in range(256)]
    assert (ups.count(4), ups.count(5)) == (192, 64)
    assert e4m3.encode(np.float32(0.3)) == 42
    # Half way between two numbers of E2M1 but for 2^-40: FP32 on the way would make it a tie.
    assert e2m1.encode(2.5 + 2.0**-40) == 5 and e2m1.encode(2.5) == 4


def test_formats_are_what_quantize_takes():
    names = [f.name for f in ng.formats()]
    assert len(names) == len(set(names))
    assert {"mxfp4", "nvfp4", "int8", "uint4", "float8_e4m3fn", "float4_e2m1fn"} <= set(names)
    x = np.linspace(-3, 3, 64, dtype=np.float32).reshape(2, 32)
    for known in ng.formats():
        by_name, by_object = ng.quantize(x, known.name), ng.quantize(x, known)
        assert by_name.format == known == ng.format(known.name) and hash(known)
        assert np.array_equal(by_name.codes, by_object.codes)
    nvfp4 = ng.format("nvfp4", block=(16, 16), rounding="stochastic")
    assert (nvfp4.block, nvfp4.rounding, nvfp4.name) == ("16x16", "stochastic", "nvfp4")
    assert ng.format("nvfp4").bits_per_value == 4.5
