"""Tensors of torch, on the CPU."""

import numpy as np
import pytest

import narrowgauge as ng

torch = pytest.importorskip("torch")
if not hasattr(torch, "float8_e4m3fnuz"):
    pytest.skip(f"torch {torch.__version__} has no FP8 and no NumPy 2", allow_module_level=True)

NARROW = ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"]


@pytest.mark.parametrize("name", NARROW)
def test_casts_are_those_of_torch(name):
    x = torch.randn(64, 96, generator=torch.Generator().manual_seed(1))
    q = ng.quantize(x, name)
    narrow = x.to(getattr(torch, name))
    assert q.as_torch().dtype == narrow.dtype
    assert torch.equal(q.as_torch().float(), narrow.float())
    again = ng.quantize(narrow, name)  # a narrow tensor is taken by its codes
    assert np.array_equal(again.codes, q.codes)


def test_gradients_strides_and_pairs():
    x = torch.randn(32, 64, requires_grad=True)
    want = ng.quantize(x.detach().numpy(), "mxfp4")
    assert np.array_equal(ng.quantize(x, "mxfp4").codes, want.codes)
    turned = ng.quantize(x.detach().t(), "mxfp4")
    assert np.array_equal(turned.codes, ng.quantize(x.detach().t().contiguous(), "mxfp4").codes)
    assert ng.error(x, want).sqnr_db > 15
    if hasattr(torch, "float4_e2m1fn_x2"):
        assert want.as_torch().shape == (32, 32)
        values = ng.element("e2m1").values()[want.codes]
        back = ng.quantize(want.as_torch(), "float4_e2m1fn")
        assert np.array_equal(back.dequantize(), values)


def test_memory_is_shared():
    assert ng.quantize(np.ones((2, 32)), "int8").as_torch().dtype == torch.int8
    with pytest.raises(ng.Error, match="torch has no"):
        ng.quantize(np.ones((2, 32)), "mxfp6_e3m2").as_torch()
    q = ng.quantize(np.ones((2, 32), np.float32), "fp8_e4m3")
    assert q.as_torch().data_ptr() == q.codes.ctypes.data
