"""Products of operands in torch operations, within bounds of those of the kernels."""

from __future__ import annotations

import pytest

import narrowgauge as ng

torch = pytest.importorskip("torch")
if not hasattr(torch, "get_default_device"):
    pytest.skip(f"torch {torch.__version__} has no default device", allow_module_level=True)

from torch_forms import as_tensor, operand_form, where  # noqa: E402

from narrowgauge.torch._operations import GemmForm, operand, product, products  # noqa: E402


__all__ = ["where"]  # a fixture


def test_products_of_quantized_matrices():
    """Within the bound, of every pair of kinds of operands."""
    a, b = torch.randn(24, 96), torch.randn(20, 96)
    names = ["fp32", "bf16", "fp8_e4m3", "mxfp4", "mxfp8_e5m2", "nvfp4", "int8", "mxint8"]
    for left in names:
        for right in names:
            gemm = GemmForm(operand_form(left), operand_form(right))
            qa, qb = (operand(x, f) for x, f in ((a, gemm.left), (b, gemm.right)))
            got = product(qa, qb, gemm)
            want = as_tensor(ng.matmul(a.cpu(), b.cpu(), a_format=left, b_format=right, threads=1))
            bound = (96 + 32) * 2.0**-24 * (qa.values.abs() @ qb.values.abs().t())
            assert bool(((got - want).abs() <= bound).all()), (left, right)


@pytest.mark.parametrize(
    "left, right, is_taken",
    [("fp8_e4m3", "fp8_e4m3", True), ("fp8_e5m2", "fp8_e4m3", True),
     ("fp8_e5m2", "fp8_e5m2", False), ("mxfp8_e4m3", "fp8_e4m3", False)],
)  # fmt: skip
def test_fp8_is_multiplied_as_such_where_a_card_does(left, right, is_taken, monkeypatch):
    a, b = torch.randn(24, 96), torch.randn(32, 96)
    gemm = GemmForm(operand_form(left), operand_form(right))
    qa, qb = (operand(x, f) for x, f in ((a, gemm.left), (b, gemm.right)))
    plain = products._matmul(products._factor(qa, qb), products._factor(qb, qa))
    monkeypatch.setattr(products, "_multiplies_fp8", lambda _: hasattr(torch, "_scaled_mm"))
    if not (is_taken and hasattr(torch, "_scaled_mm")):
        assert not products._takes_fp8(qa, qb)
        return
    assert products._takes_fp8(qa, qb)
    try:
        made = products._fp8_product(qa, qb)
    except (RuntimeError, NotImplementedError):
        pytest.skip("this torch has no torch._scaled_mm here")
    unit = 2.0**-13 if a.is_cuda else 2.0**-24  # Hopper's sums of FP8 keep some 14 bits
    bound = (96 + 32) * unit * (qa.elements.float().abs() @ qb.elements.float().abs().t())
    assert bool(((made - plain).abs() <= bound).all())
    assert product(qa, qb, gemm).dtype == torch.float32
    assert not products._takes_fp8(qa, operand(b[:20], gemm.right))
