// GEMMs: products are defined to the bit, but by a card's matrix units. [backend/ref/gemm.h]
#include <limits>

#include "backend/sum_bound.h"
#include "format/hadamard.h"
#include "operands.h"

namespace ng::conformance {
namespace {

struct GemmCase {
  Operand left{}, right{};
  int hadamard = 0;
  int64_t m = 5, n = 7, k = 100;
  Orientation left_at = kOrientations[0], right_at = kOrientations[1];
  Into into = Into::overwrite;
  bool bias = false;
  Compute round = Compute::fp32;
  SumOrder sum = SumOrder::chain;
  float poison = 0;
  float factor = 1;  ///< of sources' values
  bool bf16_sources = false, bf16_output = false;

  [[nodiscard]] std::string text() const {
    return fmt::format("gemm {} {}x{}x{} {} · {} hadamard {} into {} bias {} {} contract {}{}{}{}",
                       name_of(sum), m, n, k, describe(left), describe(right), hadamard,
                       static_cast<int>(into), bias, round == Compute::bf16 ? "bf16" : "fp32",
                       static_cast<int>(left_at.contract), static_cast<int>(right_at.contract),
                       bf16_sources ? " bf16 sources" : "", bf16_output ? " bf16 output" : "");
  }
};

/// Of each value of y: its sum's [backend/sum_bound.h], with the roundings of a bias and of what is
/// there. In BF16 both may be rounded apart, by a step of the value, which Σ|a||b| is no less than.
struct UnitsBound {
  std::vector<float> a, b;  ///< values, [rows][k_padded]
  size_t k_padded;
  double factor;
  bool is_rounded;
  SumUnits units;
  const Matrix& bias;
  const Matrix& before;

  [[nodiscard]] double operator()(const std::string& /* y */, int64_t row, int64_t col) const {
    const std::span<const float> x(a.data() + static_cast<size_t>(row) * k_padded, k_padded);
    const std::span<const float> z(b.data() + static_cast<size_t>(col) * k_padded, k_padded);
    double size = std::abs(bias.at(0, col)) + std::abs(before.at(row, col));
    for (size_t k = 0; k < k_padded; ++k)
      size += factor * std::abs(static_cast<double>(x[k]) * z[k]);
    return factor * sum_bound(x, z, units) + (8 * kUnit + (is_rounded ? 0x1p-7 : 0.0)) * size;
  }
};

/// Of an operand as ref has it.
std::vector<float> values_of(const OperandSpec& spec, const Matrix& source, Purpose purpose) {
  const Place with{reference(), Storage::fp32};
  const Tensor there = with.fp32(source);
  const Matrix values = unpack(with, prepare(with, spec, there, drawing(purpose)).packed).values;
  std::vector<float> all;
  for (int64_t r = 0; r < values.rows(); ++r)
    for (int64_t k = 0; k < values.cols(); ++k) all.push_back(values.at(r, k) / spec.cast.prescale);
  return all;
}

void check_gemm(const GemmCase& g, const Turns& turns = kProducts) {
  const int64_t multiple = multiple_of(g.left, g.right, g.hadamard);
  const OperandSpec left = spec_of(g.left, g.left_at, g.m, g.k, g.hadamard, multiple);
  const OperandSpec right = spec_of(g.right, g.right_at, g.n, g.k, g.hadamard, multiple);
  Matrix a = source_of(left, 80), w = source_of(right, 81);
  for (Matrix* x : {&a, &w})
    for (int64_t r = 0; r < x->rows(); ++r)
      for (int64_t c = 0; c < x->cols(); ++c) x->at(r, c) *= g.factor;
  if (g.poison != 0) a.at(a.rows() / 2, a.cols() / 2) = g.poison;
  const Matrix bias = Matrix(1, g.n).fill_uniform(82);
  const Matrix before = Matrix(g.m, g.n, 3, 2).fill_uniform(83);
  const Storage storage = g.bf16_sources || g.bf16_output ? Storage::bf16 : Storage::fp32;
  const auto of_units = [&](const Target& target) -> Bound {
    const SumUnits units = backend_of(target).sum_units(left, right, g.sum);
    if (units == SumUnits::defined) return exactly;
    return UnitsBound{.a = values_of(left, a, Purpose::dgrad_grad),
                      .b = values_of(right, w, Purpose::dgrad_weight),
                      .k_padded = static_cast<size_t>(left.k_padded()),
                      .factor = hadamard_alpha(g.hadamard),
                      .is_rounded = g.bf16_output || g.round == Compute::bf16,
                      .units = units,
                      .bias = bias,
                      .before = before};
  };
  const auto run = [&](const Place& with) -> Results {
    const auto tensor = [&](const Matrix& m, bool bf16) {
      return bf16 ? with.activation(m) : with.fp32(m);
    };
    const Tensor a_source = tensor(a, g.bf16_sources), w_source = tensor(w, g.bf16_sources);
    const Prepared pa = prepare(with, left, a_source, drawing(Purpose::dgrad_grad));
    const Prepared pw = prepare(with, right, w_source, drawing(Purpose::dgrad_weight));
    const Tensor bias_row = with.fp32(bias);
    Tensor y = tensor(before, g.bf16_output);
    with.execute(Gemm{.y = y,
                      .a = &pa.packed,
                      .b = &pw.packed,
                      .into = g.into,
                      .bias = g.bias ? bias_row : ConstView{},
                      .round = g.round,
                      .sum = g.sum});
    return {{"y", y.values()}};
  };
  conform(g.text(), storage, run, exactly, turns, of_units);
}

TEST(Conformance, GemmOfAllPairsOfPresets) {
  for (const std::string_view left : operand_names())
    for (const std::string_view right : operand_names())
      check_gemm({.left = operand_of(left), .right = operand_of(right)});
}

// -1, 0 and 1 with one scale beside every format, as BitNet multiplies them, and in blocks.
TEST(Conformance, GemmOfTernaryElements) {
  Operand ternary = operand_of("int4");
  ternary.element = &element_format("ternary");
  ternary.scale_of = ScaleOf::mean_abs;
  for (const Block& block : {Block{.kind = Block::Kind::tensor}, Block{.kind = Block::Kind::row},
                             Block{.kind = Block::Kind::tile, .rows = 1, .cols = 32}}) {
    ternary.block = block;
    check_gemm({.left = ternary, .right = ternary});
    for (const std::string_view left : operand_names())
      check_gemm({.left = operand_of(left), .right = ternary});
  }
}

// Of which each block has one of two elements, and a scale whose sign says so.
TEST(Conformance, GemmOfListsOfElements) {
  Operand list = operand_of("nvfp4");
  list.other = &element_format("int4");
  for (const int64_t k : {31, 128, 700}) check_gemm({.left = list, .right = list, .k = k});
  for (const std::string_view left : operand_names())
    check_gemm({.left = operand_of(left), .right = list, .hadamard = 16});
  Operand in_regions = list;
  in_regions.tensor_block = {.kind = Block::Kind::tile, .rows = 1, .cols = 64};
  check_gemm({.left = in_regions, .right = list, .bias = true, .bf16_output = true});
}

void check_orientations(std::string_view name, GemmCase test) {
  test.left = test.right = operand_of(name);
  test.m = 18, test.n = 33, test.k = 140;
  for (const Contract left : {Contract::cols, Contract::rows})
    for (const Contract right : {Contract::cols, Contract::rows}) {
      test.left_at = {left, Side::left};
      test.right_at = {right, Side::right};
      check_gemm(test, kProductsOfGrids);
    }
}

TEST(Conformance, GemmOrientationsAndTransforms) {
  for (const std::string_view name : operand_names())
    for (const int hadamard : {0, 16, 32, 64, 128})
      check_orientations(name, {.hadamard = hadamard});
}

TEST(Conformance, GemmShapes) {
  for (const std::string_view name :
       {"fp32", "bf16", "fp8_e4m3", "mxfp4", "nvfp4", "mxfp6_e3m2", "int8"})
    for (const int64_t m : {1, 13, 64})
      for (const int64_t n : {1, 17, 100})
        for (const int64_t k : {1, 31, 128, 700})
          check_gemm({.left = operand_of(name), .right = operand_of(name), .m = m, .n = n, .k = k},
                     kProductsOfGrids);
}

TEST(Conformance, GemmAsTilesSum) {
  for (const std::string_view name : operand_names()) {
    const Operand cast = operand_of(name);
    if (!cast.factors_are_bf16()) continue;
    GemmCase plain{.left = cast, .right = cast, .m = 13, .n = 50};
    plain.sum = SumOrder::tile32;
    for (const int64_t k : {1, 31, 128, 700}) {
      plain.k = k;
      check_gemm(plain);
    }
    for (const Contract contract : {Contract::cols, Contract::rows})
      for (const int hadamard : {0, 64}) {
        GemmCase turned = plain;
        turned.k = 140;
        turned.hadamard = hadamard;
        turned.left_at = {contract, Side::left};
        turned.right_at = {contract, Side::right};
        check_gemm(turned);
      }
    plain.into = Into::add;
    plain.bias = plain.bf16_output = true;
    check_gemm(plain);
  }
  // Elements and sums on both sides of FP32's smallest normal number, and values that are none.
  const Operand bf16 = operand_of("bf16");
  for (const float factor : {0x1p-62f, 0x1p-120f})
    check_gemm({.left = bf16,
                .right = bf16,
                .into = Into::carry,
                .sum = SumOrder::tile32,
                .factor = factor});
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), 3e38f})
    check_gemm({.left = bf16, .right = bf16, .sum = SumOrder::tile32, .poison = bad});
}

// Larger than any panel or cache block a driver may use, on every side.
TEST(Conformance, GemmAcrossPanels) {
  for (const std::string_view name : {"fp32", "mxfp4", "nvfp4"}) {
    const Operand cast = operand_of(name);
    check_gemm({.left = cast, .right = cast, .m = 400, .n = 35, .k = 300});
    check_gemm({.left = cast, .right = cast, .m = 6, .n = 1100, .k = 70});
    check_gemm({.left = cast, .right = cast, .m = 11, .n = 37, .k = 5000});
  }
}

TEST(Conformance, GemmEpilogues) {
  for (const std::string_view name : {"fp32", "bf16", "fp8_e5m2", "mxfp4", "nvfp4", "int8"})
    for (const Into into : {Into::overwrite, Into::add, Into::carry})
      for (const bool bias : {false, true})
        for (const Compute round : {Compute::fp32, Compute::bf16}) {
          const Operand cast = operand_of(name);
          if (into == Into::carry && !cast.is_unscaled()) continue;
          check_gemm({.left = cast,
                      .right = cast,
                      .m = 9,
                      .n = 21,
                      .k = 70,
                      .into = into,
                      .bias = bias,
                      .round = round});
        }
}

TEST(Conformance, GemmIntoBf16) {
  for (const std::string_view name : {"fp32", "bf16", "fp8_e5m2", "mxfp4", "nvfp4", "int8"})
    for (const Into into : {Into::overwrite, Into::add})
      for (const bool bias : {false, true})
        for (const bool bf16_sources : {false, true})
          check_gemm({.left = operand_of(name),
                      .right = operand_of(name),
                      .m = 9,
                      .n = 21,
                      .k = 70,
                      .into = into,
                      .bias = bias,
                      .bf16_sources = bf16_sources,
                      .bf16_output = true});
}

TEST(Conformance, GemmOfBf16Sources) {
  for (const std::string_view name : operand_names())
    for (const int hadamard : {0, 32})
      check_orientations(
          name, {.hadamard = hadamard, .bf16_sources = true, .bf16_output = hadamard == 0});
  for (const std::string_view name : {"fp32", "bf16", "fp8_e4m3", "mxfp4"}) {
    const Operand cast = operand_of(name);
    for (const int64_t k : {1, 31, 700})
      check_gemm({.left = cast, .right = cast, .m = 13, .n = 100, .k = k, .bf16_sources = true});
    check_gemm({.left = cast, .right = cast, .m = 400, .n = 35, .k = 300, .bf16_sources = true});
    check_gemm({.left = cast, .right = cast, .m = 6, .n = 1100, .k = 70, .bf16_output = true});
    check_gemm({.left = cast,
                .right = cast,
                .poison = std::numeric_limits<float>::quiet_NaN(),
                .bf16_sources = true});
  }
}

TEST(Conformance, GemmOptions) {
  for (const std::string_view name : {"bf16", "fp8_e4m3", "mxfp4", "nvfp4"}) {
    Operand cast = operand_of(name);
    cast.rounding = Rounding::stochastic;
    cast.prescale = 0.75f;
    check_gemm({.left = cast, .right = cast, .hadamard = 32, .m = 9, .n = 21, .k = 170});
    Operand tiled = operand_of(name);
    if (tiled.block.kind != Block::Kind::tile) continue;
    tiled.block.rows = tiled.block.cols;
    check_gemm({.left = cast, .right = tiled, .m = 9, .n = 50, .k = 170});
  }
  Operand blocks = operand_of("fp8_e4m3");
  blocks.block = {.kind = Block::Kind::tile, .rows = 1, .cols = 128};
  check_gemm({.left = blocks, .right = blocks, .m = 9, .n = 21, .k = 300});
  check_gemm({.left = blocks, .right = operand_of("mxfp4"), .m = 9, .n = 21, .k = 300});
}

TEST(Conformance, GemmOfNonfiniteValues) {
  for (const std::string_view name : operand_names())
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), 3e38f})
      check_gemm({.left = operand_of(name), .right = operand_of(name), .poison = bad});
}

}  // namespace
}  // namespace ng::conformance
