// Operands and GEMMs: codes, scales, counters and products are defined to the bit.
// [backend/ref/operand.h, backend/ref/gemm.h]
#include <limits>

#include "operands.h"

namespace ng::conformance {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

void check_operand(const std::string& text, const Operand& cast, int hadamard, int64_t rows,
                   int64_t k, float poison = 0) {
  for (const Orientation& o : kOrientations) {
    const OperandSpec spec = spec_of(cast, o, rows, k, hadamard, multiple_of(cast, cast, hadamard));
    Matrix source = source_of(spec, 70);
    if (poison != 0) source.at(source.rows() / 2, source.cols() / 2) = poison;
    conform(fmt::format("{}: {} hadamard {} {}x{} contract {} side {}", text, describe(cast),
                        hadamard, rows, k, o.contract == Contract::rows ? "rows" : "cols",
                        o.side == Side::left ? "left" : "right"),
            [&](Backend& b) { return unpacked(b, spec, source, drawing()); });
  }
}

TEST(Conformance, OperandPresets) {
  for (const std::string_view name : operand_names())
    for (const Rounding rounding : {Rounding::nearest, Rounding::stochastic})
      for (const int hadamard : {0, 16, 32, 64, 128}) {
        Operand cast = operand_of(name);
        cast.rounding = rounding;
        check_operand("preset", cast, hadamard, 19, 150);
      }
}

// Large enough for a backend that reads the source in parts.
TEST(Conformance, BothOperandsOfASource) {
  const Matrix source = spread(300, 600, 71, 3);
  for (const std::string_view name : operand_names()) {
    Operand straight = operand_of(name), turned = straight;
    turned.rounding = Rounding::stochastic;
    OperandSpec first = spec_of(straight, {Contract::cols, Side::left}, 300, 600, 0, 32);
    OperandSpec second = spec_of(turned, {Contract::rows, Side::left}, 600, 300, 64, 64);
    first.signed_zeros = second.signed_zeros = true;
    conform(fmt::format("{} along rows, stochastic turned", name), [&](Backend& b) -> Results {
      Prepared a = reserve(b, first), c = reserve(b, second);
      b.prepare_both({a.packed, drawing()}, {c.packed, drawing(Purpose::wgrad_grad)},
                     source.view());
      Matrix x(first.rows, first.k_padded()), y(second.rows, second.k_padded());
      b.unpack(a.packed, x.view(), nullptr);
      b.unpack(c.packed, y.view(), nullptr);
      return {{"first", x}, {"second", y}};
    });
  }
}

TEST(Conformance, OperandShapes) {
  for (const std::string_view name : {"fp32", "bf16", "fp8_e4m3", "mxfp4", "nvfp4", "int8"})
    for (const int64_t rows : {1, 3, 17, 64})
      for (const int64_t k : {1, 15, 32, 129, 513})
        check_operand("shape", operand_of(name), 0, rows, k);
}

TEST(Conformance, OperandScaleRules) {
  for (const ScaleRule rule :
       {ScaleRule::floor, ScaleRule::rceil, ScaleRule::ceil, ScaleRule::even, ScaleRule::mse})
    for (const std::string_view name : {"mxfp8_e4m3", "mxfp6_e2m3", "mxfp4", "mxint8"}) {
      Operand cast = operand_of(name);
      cast.scale_rule = rule;
      check_operand("scale rule", cast, 0, 7, 100);
    }
  Operand nvfp4 = operand_of("nvfp4");
  nvfp4.scale_rule = ScaleRule::up;
  check_operand("scale rule", nvfp4, 16, 7, 100);
}

TEST(Conformance, OperandBlocks) {
  const Block blocks[] = {{.kind = Block::Kind::tile, .rows = 32, .cols = 32},
                          {.kind = Block::Kind::tile, .rows = 16, .cols = 16},
                          {.kind = Block::Kind::tile, .rows = 1, .cols = 128},
                          {.kind = Block::Kind::row},
                          {.kind = Block::Kind::tensor}};
  for (const Block& block : blocks)
    for (const std::string_view name : {"fp8_e4m3", "mxfp4", "nvfp4", "int8"}) {
      Operand cast = operand_of(name);
      if (block.kind != Block::Kind::tile && name != "fp8_e4m3" && name != "int8") continue;
      if (block.kind == Block::Kind::tile && name == "int8") continue;
      cast.block = block;
      check_operand("block", cast, 0, 37, 140);
      if (name != "fp8_e4m3") continue;
      cast.scale = ScaleKind::pow2;
      check_operand("pow2", cast, 0, 37, 140);
    }
}

TEST(Conformance, OperandOptions) {
  for (const int bits : {8, 32})
    for (const std::string_view name : {"bf16", "fp8_e5m2", "mxfp4", "int4"}) {
      Operand cast = operand_of(name);
      cast.rounding = Rounding::stochastic;
      cast.sr_bits = bits;
      check_operand("sr bits", cast, 0, 9, 77);
    }
  for (const std::string_view name : {"bf16", "fp16", "fp8_e4m3", "mxfp4", "nvfp4", "int8"}) {
    Operand cast = operand_of(name);
    cast.prescale = 0.75f;
    check_operand("prescale", cast, 32, 9, 77);
  }
  for (const std::string_view name : {"fp16", "fp8_e4m3", "fp8_e5m2"}) {
    Operand cast = operand_of(name);
    cast.overflow = Overflow::special;
    cast.prescale = 1.5f;
    check_operand("overflow", cast, 0, 9, 77);
  }
}

TEST(Conformance, OperandsOfNonfiniteValues) {
  for (const std::string_view name : operand_names())
    for (const float bad : {kNan, kInf, -kInf, 3e38f, 3.4e38f, 1e-44f})
      check_operand("poison", operand_of(name), 0, 9, 70, bad);
  for (const Overflow overflow : {Overflow::saturate, Overflow::special})
    for (const float bad : {kInf, 3e38f, -3.4e38f})
      for (const Rounding rounding : {Rounding::nearest, Rounding::stochastic}) {
        Operand cast = operand_of("bf16");
        cast.overflow = overflow;
        check_operand("bf16 in place", cast, 0, 9, 70, bad);
        cast.prescale = 1.25f;
        cast.rounding = rounding;
        check_operand("bf16", cast, 0, 9, 70, bad);
      }
}

TEST(Conformance, DelayedScaling) {
  for (const std::string_view name : {"fp8_e4m3", "fp8_e5m2"})
    for (const AmaxCompute amax : {AmaxCompute::max, AmaxCompute::most_recent}) {
      Operand cast = operand_of(name);
      cast.scaling = Scaling::delayed;
      cast.amax_history = 3;
      cast.amax_compute = amax;
      cast.margin = 1;
      conform(fmt::format("delayed {}", describe(cast)), [&](Backend& b) {
        Matrix encode_scale = Matrix(1, 1).fill(1);
        Matrix history = Matrix(1, 3).fill(0);
        PrepareContext context = drawing();
        context.delayed = {encode_scale.data(), history.data()};
        Results all;
        for (int step = 0; step < 6; ++step) {
          const OperandSpec spec = spec_of(cast, kOrientations[0], 9, 40, 0, 1);
          Matrix x = source_of(spec, static_cast<uint64_t>(step));
          if (step == 4) x.fill(0);
          context.update_history = step != 2;
          all.merge(Results{
              {fmt::format("values {}", step), unpacked(b, spec, x, context).at("values")}});
          b.roll_delayed_scale(cast, context.delayed);
          all.merge(Results{{fmt::format("scale {}", step), encode_scale},
                            {fmt::format("history {}", step), history}});
        }
        return all;
      });
    }
}

// ---------------------------------------------------------------- GEMM

struct Gemm {
  Operand left, right;
  int hadamard = 0;
  int64_t m = 5, n = 7, k = 100;
  Orientation left_at = kOrientations[0], right_at = kOrientations[1];
  Into into = Into::overwrite;
  bool bias = false;
  Compute round = Compute::fp32;
  float poison = 0;

  [[nodiscard]] std::string text() const {
    return fmt::format("gemm {}x{}x{} {} · {} hadamard {} into {} bias {} {} contract {}{}", m, n,
                       k, describe(left), describe(right), hadamard, static_cast<int>(into), bias,
                       name_of(round), static_cast<int>(left_at.contract),
                       static_cast<int>(right_at.contract));
  }
};

void check_gemm(const Gemm& g) {
  const int64_t multiple = multiple_of(g.left, g.right, g.hadamard);
  const OperandSpec left = spec_of(g.left, g.left_at, g.m, g.k, g.hadamard, multiple);
  const OperandSpec right = spec_of(g.right, g.right_at, g.n, g.k, g.hadamard, multiple);
  Matrix a = source_of(left, 80);
  if (g.poison != 0) a.at(a.rows() / 2, a.cols() / 2) = g.poison;
  const Matrix w = source_of(right, 81), bias = Matrix(1, g.n).fill_uniform(82);
  const Matrix before = Matrix(g.m, g.n, 3, 2).fill_uniform(83);
  conform(g.text(), [&](Backend& b) -> Results {
    const Prepared pa = prepare(b, left, a, drawing(Purpose::dgrad_grad));
    const Prepared pw = prepare(b, right, w, drawing(Purpose::dgrad_weight));
    Matrix y = before;
    b.gemm(
        {.y = y.view(), .into = g.into, .bias = g.bias ? bias.data() : nullptr, .round = g.round},
        pa.packed, pw.packed);
    return {{"y", y}};
  });
}

TEST(Conformance, GemmOfAllPairsOfPresets) {
  for (const std::string_view left : operand_names())
    for (const std::string_view right : operand_names())
      check_gemm({.left = operand_of(left), .right = operand_of(right)});
}

TEST(Conformance, GemmOrientationsAndTransforms) {
  for (const std::string_view name : operand_names())
    for (const Contract left : {Contract::cols, Contract::rows})
      for (const Contract right : {Contract::cols, Contract::rows})
        for (const int hadamard : {0, 16, 32, 64, 128})
          check_gemm({.left = operand_of(name),
                      .right = operand_of(name),
                      .hadamard = hadamard,
                      .m = 18,
                      .n = 33,
                      .k = 140,
                      .left_at = {left, Side::left},
                      .right_at = {right, Side::right}});
}

TEST(Conformance, GemmShapes) {
  for (const std::string_view name :
       {"fp32", "bf16", "fp8_e4m3", "mxfp4", "nvfp4", "mxfp6_e3m2", "int8"})
    for (const int64_t m : {1, 13, 64})
      for (const int64_t n : {1, 17, 100})
        for (const int64_t k : {1, 31, 128, 700})
          check_gemm({.left = operand_of(name), .right = operand_of(name), .m = m, .n = n, .k = k});
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
        for (const Compute round : kComputes) {
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
    for (const float bad : {kNan, kInf, 3e38f})
      check_gemm({.left = operand_of(name), .right = operand_of(name), .poison = bad});
}

}  // namespace
}  // namespace ng::conformance
