// Operands: codes, scales and counters are defined to the bit. [backend/ref/operand.h]
#include <algorithm>
#include <limits>

#include "operands.h"

namespace ng::conformance {
namespace {

constexpr float kOperandsNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kOperandsInf = std::numeric_limits<float>::infinity();

void check_operand(const std::string& text, const Operand& cast, int hadamard, int64_t rows,
                   int64_t k, float poison = 0, Storage storage = Storage::fp32) {
  for (const Orientation& o : kOrientations) {
    const OperandSpec spec = spec_of(cast, o, rows, k, hadamard, multiple_of(cast, cast, hadamard));
    Matrix source = source_of(spec, 70);
    if (poison != 0) source.at(source.rows() / 2, source.cols() / 2) = poison;
    conform(
        fmt::format("{}: {} hadamard {} {}x{} contract {} side {}", text, describe(cast), hadamard,
                    rows, k, o.contract == Contract::rows ? "rows" : "cols",
                    o.side == Side::left ? "left" : "right"),
        storage, [&](const Place& with) { return unpacked(with, spec, source, drawing()); },
        exactly, kOperands);
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

// Groups that fill a warp, several in one and several warps in one; columns that padded K are left.
TEST(Conformance, TurnBack) {
  for (const Storage storage : kStorages)
    for (const int g : {16, 32, 64, 128})
      for (const Into into : {Into::overwrite, Into::add})
        for (const Compute round : {Compute::fp32, Compute::bf16})
          conform(fmt::format("turn_back {}", g), storage, [&](const Place& with) {
            const Tensor x = with.fp32(spread(5, 3 * g, 71, 3));
            Tensor y = with.activation(spread(5, 3 * g - 5, 72, 1));
            with.execute(
                TurnBack{.y = y, .x = x, .hadamard = hadamard_of(g), .into = into, .round = round});
            return Results{{"y", y.values()}};
          });
}

/// Of each kind of scale, and without.
std::vector<Operand> casts_that_pass() {
  std::vector<Operand> casts;
  for (const std::string_view name :
       {"mxfp4", "nvfp4", "mxfp6_e2m3", "int8", "fp8_e4m3", "nvfp4", "nvfp4", "int4", "bf16"})
    casts.push_back(operand_of(name));
  casts[0].scale_of = ScaleOf::rms;
  casts[4].prescale = 0.75f;
  casts[5].rounding = Rounding::stochastic;
  casts[5].fit = {6, 4};
  casts[6].block.kind = Block::Kind::row;
  casts[6].scale = ScaleKind::fp32;
  casts[6].tensor_scale = ScaleKind::none;
  casts[7].scale_of = ScaleOf::mean_abs;
  return casts;
}

TEST(Conformance, RoundingBackward) {
  for (const Storage storage : kStorages)
    for (const RoundingGradient gradient : {RoundingGradient::clip, RoundingGradient::dge})
      for (Operand cast : casts_that_pass())
        for (const int hadamard : {0, 32}) {
          cast.gradient = gradient;
          const OperandSpec spec = spec_of(cast, {Contract::cols, Side::left}, 19, 150, hadamard,
                                           multiple_of(cast, cast, hadamard));
          const Matrix source = source_of(spec, 70);
          conform(fmt::format("rounding_backward {} {}", describe(cast), hadamard), storage,
                  [&](const Place& with) {
                    const Tensor from = with.activation(source);
                    return Results{{"y", passed(with, spec, from, drawing())}};
                  });
        }
}

// A source in BF16 gives the bits of the same values in FP32.
TEST(Conformance, OperandsOfBf16Sources) {
  for (const std::string_view name : operand_names()) {
    const Operand nearest = operand_of(name);
    Operand stochastic = nearest;
    stochastic.rounding = Rounding::stochastic;
    stochastic.prescale = 0.75f;
    check_operand("bf16 source", nearest, 0, 37, 150, 0, Storage::bf16);
    check_operand("bf16 source", nearest, 64, 3, 513, kOperandsNan, Storage::bf16);
    check_operand("bf16 source", stochastic, 0, 17, 129, kOperandsInf, Storage::bf16);
    check_operand("bf16 source", stochastic, 32, 64, 300, 0, Storage::bf16);
  }
}

Results both_operands(const Place& with, const OperandSpec& first, const OperandSpec& second,
                      const Matrix& source) {
  const Tensor x = with.activation(source);
  Prepared a = reserve(with, first), c = reserve(with, second);
  with.execute(PrepareBoth{
      .made = {{{&a.packed, drawing()}, {&c.packed, drawing(Purpose::wgrad_grad)}}}, .source = x});
  return {{"first", unpack(with, a.packed).values}, {"second", unpack(with, c.packed).values}};
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
    for (const Storage storage : kStorages)
      conform(
          fmt::format("{} along rows, stochastic turned", name), storage,
          [&](const Place& with) { return both_operands(with, first, second, source); }, exactly,
          kOperands);
  }
}

// A card's tiles of 64: blocks that fit there and one that does not, padding on all sides.
TEST(Conformance, BothOperandsInBlocksOfARow) {
  const Matrix source = spread(70, 150, 71, 3);
  const auto cast = [](std::string_view element, int width, ScaleKind scale) {
    Operand made = operand_of(scale == ScaleKind::e4m3 ? "nvfp4" : "fp8_e4m3");
    made.element = &element_format(element);
    made.block = {.kind = Block::Kind::tile, .rows = 1, .cols = width};
    made.scale = scale;
    return made;
  };
  for (const Operand& straight :
       {cast("e2m1", 16, ScaleKind::e4m3), cast("int4", 4, ScaleKind::e4m3),
        cast("e4m3", 64, ScaleKind::fp32), cast("int8", 32, ScaleKind::pow2),
        cast("e4m3", 128, ScaleKind::fp32)})
    for (const int hadamard : {0, 16, 64}) {
      Operand turned = straight;
      turned.rounding = Rounding::stochastic;
      OperandSpec first = spec_of(straight, {Contract::cols, Side::left}, 70, 150, 0,
                                  multiple_of(straight, straight, 0)),
                  second = spec_of(turned, {Contract::rows, Side::left}, 150, 70, hadamard,
                                   multiple_of(turned, turned, hadamard));
      first.signed_zeros = second.signed_zeros = true;
      conform(fmt::format("{} and turned, hadamard {}", describe(straight), hadamard),
              [&](const Place& with) { return both_operands(with, first, second, source); });
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

// The scale of zeros alone is the least one that ternary elements have.
TEST(Conformance, OperandsOfTernaryElements) {
  const Block blocks[] = {{.kind = Block::Kind::tile, .rows = 16, .cols = 32},
                          {.kind = Block::Kind::row},
                          {.kind = Block::Kind::tensor}};
  for (const Block& block : blocks)
    for (const ScaleOf scale_of : {ScaleOf::amax, ScaleOf::mean_abs})
      for (const Rounding rounding : {Rounding::nearest, Rounding::stochastic}) {
        Operand cast = operand_of("int4");
        cast.element = &element_format("ternary");
        cast.block = block;
        cast.scale_of = scale_of;
        cast.rounding = rounding;
        for (const int hadamard : {0, 32}) check_operand("ternary", cast, hadamard, 37, 140);
        for (const float bad : {kOperandsNan, -kOperandsInf})
          check_operand("ternary", cast, 0, 9, 70, bad);
      }
}

/// E2M1 or INT4, by each error and in blocks of either height.
std::vector<Operand> lists_of_elements() {
  std::vector<Operand> casts(4, operand_of("nvfp4"));
  for (Operand& cast : casts) cast.other = &element_format("int4");
  casts[0].rounding = Rounding::stochastic;
  casts[1].select = Select::mae;
  casts[1].block.rows = 16;
  casts[2].select = Select::max;
  casts[2].tensor_scale = ScaleKind::none;
  casts[3].tensor_block = {.kind = Block::Kind::tile, .rows = 2, .cols = 64};
  return casts;
}

TEST(Conformance, OperandsOfListsOfElements) {
  for (const Operand& cast : lists_of_elements()) {
    for (const int hadamard : {0, 32}) check_operand("list", cast, hadamard, 37, 140);
    for (const float bad : {kOperandsNan, -kOperandsInf, 3e38f, 1e-44f})
      check_operand("list", cast, 0, 9, 70, bad);
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
  for (const float bad : {kOperandsNan, kOperandsInf, -kOperandsInf, 3e38f, 3.4e38f, 1e-44f})
    for (const std::string_view name : operand_names())
      check_operand("poison", operand_of(name), 0, 9, 70, bad);
  for (const Overflow overflow : {Overflow::saturate, Overflow::special})
    for (const float bad : {kOperandsInf, 3e38f, -3.4e38f})
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
      conform(fmt::format("delayed {}", describe(cast)), [&](const Place& with) {
        Buffer<float> encode_scale = with.buffer<float>({1});
        Buffer<float> history = with.buffer<float>({0, 0, 0});
        PrepareContext context = drawing();
        context.delayed = {encode_scale.data(), history.data()};
        Results all;
        for (int step = 0; step < 6; ++step) {
          const OperandSpec spec = spec_of(cast, kOrientations[0], 9, 40, 0, 1);
          Matrix x = source_of(spec, static_cast<uint64_t>(step));
          if (step == 4) x.fill(0);
          context.update_history = step != 2;
          all.emplace(fmt::format("values {}", step),
                      unpacked(with, spec, x, context).at("values"));
          all.emplace(fmt::format("passed {}", step), passed(with, spec, with.fp32(x), context));
          with.execute(RollDelayedScale{.cast = cast, .state = context.delayed});
          all.emplace(fmt::format("scale {}", step), Matrix::row(encode_scale.values()));
          all.emplace(fmt::format("history {}", step), Matrix::row(history.values()));
        }
        return all;
      });
    }
}

}  // namespace
}  // namespace ng::conformance
