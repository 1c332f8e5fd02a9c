"""A recipe's linear layer in torch operations: the bits of the kernels and of golden vectors."""

from __future__ import annotations

import shutil
import tomllib

import numpy as np
import pytest
from conftest import GOLDEN, tensors

import narrowgauge as ng

torch = pytest.importorskip("torch")
if not hasattr(torch, "get_default_device"):
    pytest.skip(f"torch {torch.__version__} has no default device", allow_module_level=True)

from torch_forms import (  # noqa: E402
    OPERANDS, as_tensor, element, form_of, golden_cases, hostile, linear_form, operand_form,
    same_bits, where,
)

from narrowgauge.torch._operations import (  # noqa: E402
    ROLES, Delayed, Draws, layer_operand, linear_backward, linear_forward, operand,
)
from narrowgauge.torch._operations.elements import Draw, codes, rounded  # noqa: E402
from narrowgauge.torch._operations.hadamard import fixed_signs, transform  # noqa: E402
from narrowgauge.torch._operations.philox import Key, draw, random_integers  # noqa: E402

__all__ = ["where"]  # a fixture

#: Every operand that the named recipes have, and the keys that they leave at their defaults.
FORMATS = {
    "bf16": {},
    "fp16": {},
    "fp8_e4m3": {},
    "fp8_e5m2": {},
    "mxfp8_e4m3": {},
    "mxfp8_e5m2": {"scale_rule": "ceil"},
    "mxfp6_e3m2": {"block": (32, 32)},
    "mxfp6_e2m3": {"scale_rule": "even"},
    "mxfp4": {"scale_rule": "rceil"},
    "mxint8": {},
    "nvfp4": {"scale_rule": "up"},
    "int8": {},
    "int4": {},
}
MORE = [
    ("mxfp4", {"scale_rule": "mse"}),
    ("mxfp4", {"prescale": 0.75}),
    ("mxfp4", {"subnormals": "flush"}),
    ("mxfp6_e3m2", {"subnormals": "flush", "scale_rule": "mse"}),
    ("nvfp4", {"subnormals": "flush", "fit": (6, 4)}),
    ("fp8_e5m2", {"subnormals": "flush"}),
    ("nvfp4", {"block": (16, 16)}),
    ("nvfp4", {"tensor_scale": "pow2"}),
    ("nvfp4", {"tensor_scale": "none"}),
    ("nvfp4", {"fit": (6, 4), "scale_max": 256}),
    ("nvfp4", {"fit": (6, 4, 5), "select": "max", "block": (16, 16)}),
    ("fp8_e4m3", {"scale": "pow2", "block": (128, 128)}),
    ("fp8_e5m2", {"block": (1, 128), "fit": (57344, 49152), "select": "mae"}),
    ("int8", {"scale": "pow2", "block": "tensor"}),
    ("int4", {"block": (1, 32)}),
    ("bf16", {"overflow": "saturate"}),
]
CASTS = [(name, {}) for name in FORMATS] + [kv for kv in FORMATS.items() if kv[1]] + MORE


def assert_kernel_bits(x: torch.Tensor, name: str, fields: dict, **options) -> None:
    """What `operand` makes of x is what the kernels do."""
    format = ng.format(name, **fields)
    along = options.get("along", "cols")
    want = ng.quantize(x.cpu(), format, seed=3, tensor=9, threads=1, **options)
    size = options.get("hadamard", 0)
    made = operand(
        x, form_of(format), contract_rows=along == "rows", k_multiple=max(size, 1), hadamard=size,
        signs=fixed_signs(size, x.device) if size else None, key=Key(3, 9, 0, 2),
    )
    wanted, got = as_tensor(want.codes), made.codes.t() if along == "rows" else made.codes
    assert wanted.dtype == got.dtype
    assert torch.equal(wanted.int(), got.int()), (name, fields)
    if want.scale_codes is not None:
        scales = as_tensor(want.scale_codes)
        got = made.scale_codes.t() if along == "rows" else made.scale_codes
        assert torch.equal(scales, got.reshape(scales.shape)), (name, fields)
    elif want.scales is not None:
        scales = as_tensor(want.scales)
        got = made.scale.t() if along == "rows" else made.scale
        assert same_bits(scales, got.reshape(scales.shape)), (name, fields)
    tensor = 1.0 if made.tensor_scale is None else float(made.tensor_scale)
    assert tensor == want.tensor_scale
    values = made.values.t() if along == "rows" else made.values
    assert same_bits(as_tensor(want.dequantize()), values.contiguous()), (name, fields)


@pytest.mark.parametrize("along", ["cols", "rows"])
@pytest.mark.parametrize("rounding", ["nearest", "stochastic"])
def test_operands_have_the_bits_of_the_kernels(rounding, along):
    x = hostile(40, 96)
    for name, fields in CASTS:
        assert_kernel_bits(x, name, {**fields, "rounding": rounding}, along=along)


@pytest.mark.parametrize("bits", [8, 32])
def test_draws_of_other_lengths(bits):
    for name in FORMATS:
        fields = {"rounding": "stochastic", "random_bits": bits}
        assert_kernel_bits(hostile(24, 45, bits), name, fields)


@pytest.mark.parametrize("along", ["cols", "rows"])
def test_transformed_operands_have_the_bits_of_the_kernels(along):
    """Padded to whole groups, which then are not zero and draw, too."""
    for size in (32, 64, 128):
        shape = (17, 150) if along == "cols" else (150, 17)
        x = hostile(*shape, size) * 2.0**-7  # sums that overflow to NaN have no sign to compare
        for name in ("mxfp4", "nvfp4", "fp8_e4m3", "int8"):
            for rounding in ("nearest", "stochastic"):
                assert_kernel_bits(x, name, {"rounding": rounding}, hadamard=size, along=along)


def test_values_that_are_not_finite():
    x = hostile(40, 96, 5)
    x[8, 3], x[9, 40], x[10, 7] = float("nan"), float("inf"), float("-inf")
    for name, fields in CASTS:
        assert_kernel_bits(x, name, fields)


def test_all_elements_round_as_the_kernels_do():
    """Numbers, ties and their neighbours of each element of a byte; made-up ones, too."""
    names = ["e5m2", "e4m3", "e4m3_ieee", "e3m4", "e4m3fnuz", "e5m2fnuz", "e4m3b11fnuz", "e3m2",
             "e2m3", "e2m1", "int8", "int4", "ternary", "mxint8", "e3m3", "e5m0", "e1m2", "e6m4fn",
             "bf16"]
    for name in names:
        row = ng.element(name)
        values = np.unique(row.values()[np.isfinite(row.values())])
        with np.errstate(over="ignore"):
            ties = values[1:] / 2 + values[:-1] / 2
            near = np.concatenate([ties, values, values * 1.5])
            points = np.concatenate([near, np.nextafter(near, np.float32(0)), -near, near * 8])
        x = as_tensor(points.astype(np.float32))
        for overflow in ("saturate", "special")[: 1 + (row.specials != "none")]:
            if row.kind == "integer":  # whose names mean casts with scales
                want = torch.tensor([row.encode(float(v), overflow=overflow) for v in x])
            else:
                cast = ng.quantize(x.cpu()[None], name, overflow=overflow, threads=1)
                want = as_tensor(cast.codes)[0]
            got = codes(rounded(x, element(row), None, overflow), element(row))
            assert torch.equal(want.int(), got.int()), (name, overflow)


def test_draws_are_those_of_philox():
    def philox(seed: int, counter: list[int]) -> list[int]:
        k0, k1 = seed % 2**32, seed >> 32
        c0, c1, c2, c3 = counter
        for _ in range(10):
            p0, p1 = c0 * 0xD2511F53, c2 * 0xCD9E8D57
            c0, c1, c2, c3 = p1 >> 32 ^ c1 ^ k0, p1 % 2**32, p0 >> 32 ^ c3 ^ k1, p0 % 2**32
            k0, k1 = (k0 + 0x9E3779B9) % 2**32, (k1 + 0xBB67AE85) % 2**32
        return [c0, c1, c2, c3]

    seed, tensor, step, micro, purpose, whole = 2**64 - 12345, 2**20 - 1, 2**31 + 5, 3, 4, 13
    key = Key(seed, tensor, torch.tensor(step), purpose, torch.tensor(micro))
    for bits in (8, 16, 32):
        made = random_integers(key, 3, 24, whole, bits, torch.get_default_device())
        for row in range(3):
            for col in range(24):
                group, lane = row * ((whole + 7) // 8) + col // 8, col % 8

                def half(extra: int, group: int = group, lane: int = lane) -> int:
                    counter = [group, tensor, step, (purpose | extra) << 24 | micro]
                    return philox(seed, counter)[lane // 2] >> 16 * (lane % 2) & 0xFFFF

                want = {8: half(0) >> 8, 16: half(0), 32: half(0) << 16 | half(0x80)}[bits]
                assert int(made[row, col]) == want
    far = torch.tensor([2**33 + 5])  # whose bits from 32 up go beside the tensor's
    words = [int(word) for word in draw(Key(7, 9, 1, 2), far)]
    assert words == philox(7, [5, 9 | 2 << 20, 1, 2 << 24])


def test_stochastic_rounding_counts_all_draws():
    """Up for floor(f · 2^8) of all R of 8 bits."""
    r = torch.arange(256, dtype=torch.int32)
    for name in ("e2m1", "e4m3", "bf16", "int8", "mxint8", "fp16"):
        row = element(ng.element(name))
        for x in (0.3, 1.2, 0.0077, 5.9, -3.3):
            made = rounded(torch.full((256,), x), row, Draw(r, 8))
            low, high = float(made.min()), float(made.max())
            x = float(torch.tensor(x))
            share = (x - low) / (high - low) if high > low else 0.0
            ups = int((share if row.is_integer and row.mantissa_bits == 0 or x > 0
                       else 1 - share) * 256)
            goes_up = made == (high if x > 0 or name == "int8" else low)
            assert high == low or int(goes_up.sum()) == ups, (name, x)


def test_transforms_are_orthogonal_in_their_order():
    """Small integers stay exact, so that TᵀT is a power of two; the order shows in FP32."""
    for size, scale in ((16, 1.0), (32, 2.0), (64, 1.0), (128, 2.0)):
        signs = fixed_signs(size, torch.get_default_device())
        t = transform(torch.eye(size), size, signs)
        assert torch.equal(t @ t.t(), scale * torch.eye(size))
    x = hostile(9, 16, 3)[1]
    want = [float(v) * float(s) for v, s in zip(x, fixed_signs(16, x.device))]
    for stride in (1, 2, 4, 8):
        for j in (j for j in range(16) if not j & stride):
            u, v = np.float32(want[j]), np.float32(want[j + stride])
            want[j], want[j + stride] = u + v, u - v
    want = torch.tensor([float(np.float32(v) / 4) for v in want])
    assert same_bits(transform(x[None], 16, fixed_signs(16, x.device))[0], want)


def golden_forms():
    """(file, case, its parameters, its numbers) of the golden files of layers."""
    for case, at in golden_cases(GOLDEN / "linear/today.safetensors").items():
        name = "bf16" if case.endswith(".last") else at["recipe"]  # which is in its last blocks
        yield "today", case, at, linear_form(ng.Recipe(name).resolved)
    for file in ("fits", "keys", "products", "regions", "elements"):
        for case, at in golden_cases(GOLDEN / f"linear/{file}.safetensors").items():
            yield file, case, at, at["toml"]


def test_layers_of_golden_vectors(tmp_path):
    names = ("today", "fits", "keys", "products", "regions", "elements")
    files = {name: tensors(GOLDEN / f"linear/{name}.safetensors") for name in names}
    for file, case, at, form in golden_forms():
        if isinstance(form, str):
            (tmp_path / "r.toml").write_text(form)
            form = linear_form(ng.Recipe(tmp_path / "r.toml").resolved)
        of = {name[len(case) + 1 :]: as_tensor(array) for name, array in files[file].items()
              if name.startswith(case + ".")}
        draws = Draws(int(at["seed"]), at["step"], at["micro"], at["tensor_id"], at["input_id"],
                      at["output_id"])
        sources = {"input": of["input"], "weight": of["weight"], "output": of["grad"]}
        for name, role in ROLES.items():
            made = layer_operand(name, sources[role.source], form, draws)
            if f"{name}.codes" not in of:
                continue
            zero = made.values == 0  # whose sign golden files leave open
            assert torch.equal(*(torch.where(zero, 0, c.int()) for c in
                                 (made.codes, of[f"{name}.codes"]))), (case, name)
            if f"{name}.scale" in of:
                got = made.scale if made.scale_codes is None else made.scale_codes
                assert torch.equal(got.reshape(of[f"{name}.scale"].shape), of[f"{name}.scale"])
            if f"{name}.tensor_scale" in of:
                want = of[f"{name}.tensor_scale"]
                assert torch.equal(made.tensor_scale.reshape(want.shape), want), (case, name)
        if "output" in of:
            y = linear_forward(of["input"], of["weight"], of.get("bias"), form, draws)
            dx, dw, _ = linear_backward(of["input"], of["weight"], of["grad"], form, draws)
            made = {"output": y, "input_grad": dx, "weight_grad": dw}
            for name, got in made.items():
                assert bool(((got - of[name]).abs() <= of[f"{name}.tolerance"]).all()), (case, name)


def test_every_named_recipe_has_the_bits_of_the_kernels():
    """All operands of all of them that ng.quantize makes: neither fp32's, nor those of delayed
    scales or of means, of another element, of second scales of regions or of groups of a GEMM's
    transform."""
    seen = {}
    for name in ng.recipes():
        recipe = tomllib.loads(ng.Recipe(name).resolved)
        changed = [row["linear"] for row in recipe.get("override", []) + recipe.get("phase", [])]
        for linear in [recipe["linear"]] + [table for table in changed if table != "bf16"]:
            for gemm, sides in OPERANDS.items():
                for spec in (linear[gemm][s] for s in sides if s in linear.get(gemm, {})):
                    seen[repr(spec)] = spec
    x = hostile(32, 64, 11)
    for spec in seen.values():
        given = {"format": spec} if isinstance(spec, str) else dict(spec)
        for key in ("from", "gradient", "dge_k", "dge_max"):  # of a layer's GEMMs, not of a cast
            given.pop(key, None)
        others = given.keys() & {"scaling", "element", "scale_of", "tensor_block"}
        is_made = not others and given.get("rounding") != "eden"
        if spec != "fp32" and is_made:
            assert_kernel_bits(x, given.pop("format"), given)
    assert len(seen) > 20


def test_outputs_keep_the_type_and_are_rounded_where_recipes_say():
    form = linear_form(ng.Recipe("mxfp4-all").resolved)  # compute = "bf16"
    x, w, dy = torch.randn(20, 48), torch.randn(32, 48), torch.randn(20, 32)
    y = linear_forward(x, w, torch.randn(32), form, Draws(1))
    assert y.dtype == torch.float32 and torch.equal(y, y.bfloat16().float())
    dx, dw, db = linear_backward(x.bfloat16(), w, dy.bfloat16(), form, Draws(1))
    assert dx.dtype == torch.bfloat16 and dw.dtype == db.dtype == torch.float32
    assert not torch.equal(dw, dw.bfloat16().float())
    assert torch.allclose(db, dy.bfloat16().float().sum(0), atol=1e-5)
    nothing = torch.zeros(0, 48)
    assert linear_forward(nothing, w, None, form, Draws(1)).shape == (0, 32)
    dx, dw, db = linear_backward(nothing, w, torch.zeros(0, 32), form, Draws(1))
    assert dx.shape == (0, 48) and not dw.any() and not db.any()


def test_evaluation_rounds_to_nearest():
    form = linear_form(ng.Recipe("nvfp4-sr-forward").resolved)
    x = torch.randn(32, 64)
    drawn = layer_operand("fprop.input", x, form, Draws(1)).codes
    nearest = layer_operand("fprop.input", x, form.to_nearest(), Draws(1)).codes
    assert not torch.equal(drawn, nearest)
    assert torch.equal(nearest, as_tensor(ng.quantize(x.cpu(), "nvfp4", threads=1).codes))


def test_delayed_scales_follow_golden_histories():
    path = GOLDEN / "fp8lm/delayed.safetensors"
    of = {name: as_tensor(array) for name, array in tensors(path).items()}
    for case, at in golden_cases(path).items():
        prefix = case + "."
        keys = {key: at[key] for key in ("amax_history", "amax_compute", "margin")}
        cast = operand_form({"format": f"fp8_{at['element']}", "scaling": "delayed", **keys})
        state = Delayed.start(cast, torch.get_default_device())
        for step, amax in enumerate(of[prefix + "amax"]):
            assert float(state.encode_scale) == float(of[prefix + "encode_scale"][step]), case
            state.see(amax)
            state.roll(cast)
        assert float(state.encode_scale) == float(of[prefix + "last_scale"][0])
        assert torch.equal(state.history, of[prefix + "history"].reshape(-1))


def test_a_delayed_operand_scales_by_what_it_has_seen():
    form = linear_form(ng.Recipe("fp8-delayed").resolved)
    x = torch.randn(16, 32)
    state = Delayed.start(form.fprop.left, x.device)
    first = layer_operand("fprop.input", x, form, Draws(1), {"fprop.input": state})
    assert torch.equal(first.codes.int(), as_tensor(ng.quantize(x.cpu(), "e4m3").codes).int())
    state.roll(form.fprop.left)
    then = layer_operand("fprop.input", x, form, Draws(1), {"fprop.input": state})
    assert torch.equal(then.codes, as_tensor(ng.quantize(x.cpu(), "fp8_e4m3").codes))


def operands_of(names: dict[str, str]):
    """Of each recipe the operand of that role, of one tensor in one graph."""
    forms = [(linear_form(ng.Recipe(name).resolved), role) for name, role in names.items()]

    def run(x, step):
        draws = Draws(5, step, 2, 7, 8, 9)
        made = [layer_operand(role, x, form, draws) for form, role in forms]
        parts = [(one.elements, one.scale, one.tensor_scale, one.values) for one in made]
        return [part for several in parts for part in several if part is not None]

    return run


@pytest.mark.parametrize(
    "backend, names",
    [
        ("aot_eager", {"nvfp4": "wgrad.grad", "int8": "dgrad.grad", "mxfp6": "wgrad.input",
                       "mxfp4-all": "dgrad.weight", "fp8-current": "fprop.input"}),
        pytest.param("inductor", {"mxfp4-all": "dgrad.grad", "nvfp4": "fprop.weight"},
                     marks=pytest.mark.skipif(not shutil.which("g++"), reason="inductor: no g++")),
    ],
)
def test_compiled_operands_have_the_bits_of_eager_ones(backend, names):
    torch._dynamo.reset()
    x, run = hostile(20, 40, 1), operands_of(names)
    compiled = torch.compile(run, backend=backend, fullgraph=True)
    for step in (torch.tensor(3), torch.tensor(4)):
        for a, b in zip(run(x, step), compiled(x, step)):
            assert same_bits(a.float(), b.float())


def test_refusals_name_what_is_missing():
    with pytest.raises(ValueError, match="key: none, and e2m1 is rounded stochastically"):
        operand(torch.zeros(4, 32), operand_form({"format": "mxfp4", "rounding": "stochastic"}))
    with pytest.raises(ValueError, match="encode_scale: none"):
        operand(torch.zeros(4, 32), operand_form({"format": "fp8_e4m3", "scaling": "delayed"}))
    with pytest.raises(ValueError, match="e8m3fnuz: exponents reach"):
        element(ng.element("e8m3fnuz"))
