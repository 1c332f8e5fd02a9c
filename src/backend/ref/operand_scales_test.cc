// Scales and codes of every kind of block: worked examples, thresholds, edge cases.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "format/codec.h"
#include "format/scale.h"
#include "support/prepared_operand.h"

namespace ng::ref {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

using Codes = std::vector<uint16_t>;
using Values = std::vector<float>;

TEST(Mx, WorkedExamplesOfTheSpecification) {
  const Values x = block_of({7, -2.5, 0.3f, 0.75, -5, 0.2f, 1.25, -0.1f}, 32);
  Operand cast = operand_of("mxfp4");
  const Prepared floor(cast, view_of(x, 1, 32), 32);
  EXPECT_EQ(floor.parts().scale(0, 0), 1.0f);
  EXPECT_EQ(first_codes(floor, 8), (Codes{7, 0xC, 1, 2, 0xE, 0, 2, 8}));
  EXPECT_EQ(first_values(floor, 8), (Values{6, -2, 0.5, 1, -4, 0, 1, -0.0f}));
  for (const ScaleRule rule : {ScaleRule::rceil, ScaleRule::even, ScaleRule::ceil}) {
    cast.scale_rule = rule;
    const Prepared up(cast, view_of(x, 1, 32), 32);
    EXPECT_EQ(up.parts().scale(0, 0), 2.0f);
    EXPECT_EQ(first_codes(up, 8), (Codes{6, 0xA, 0, 1, 0xC, 0, 1, 8}));
    EXPECT_EQ(first_values(up, 8), (Values{8, -2, 0, 1, -4, 0, 1, -0.0f}));
  }
  const Values six = block_of({3, -1.01f, .02f, 2.999f}, 32);
  const Prepared e2m3(operand_of("mxfp6_e2m3"), view_of(six, 1, 32), 32);
  EXPECT_EQ(e2m3.parts().scale(0, 0), 0.5f);
  EXPECT_EQ(first_codes(e2m3, 4), (Codes{0x1C, 0x30, 0, 0x1C}));
  const Prepared e3m2(operand_of("mxfp6_e3m2"), view_of(six, 1, 32), 32);
  EXPECT_EQ(e3m2.parts().scale(0, 0), 0.125f);
  EXPECT_EQ(first_codes(e3m2, 4), (Codes{0x1E, 0x38, 3, 0x1E}));
  const Values eight = block_of({500, 3.3f, -.01f, .001f}, 32);
  Operand fp8 = operand_of("mxfp8_e4m3");
  EXPECT_EQ(first_codes(Prepared(fp8, view_of(eight, 1, 32), 32), 4), (Codes{0x7E, 0x45, 0x85, 1}));
  fp8.scale_rule = ScaleRule::rceil;
  EXPECT_EQ(first_codes(Prepared(fp8, view_of(eight, 1, 32), 32), 4), (Codes{0x78, 0x3D, 0x83, 0}));
}

float mx_scale(Operand cast, ScaleRule rule, float amax) {
  cast.scale_rule = rule;
  const Values x = block_of({0.0f, -amax}, 32);
  return Prepared(cast, view_of(x, 1, 32), 32).parts().scale(0, 0);
}

TEST(Mx, ScaleRulesFollowTheirDefinitionAroundEveryThreshold) {
  for (const char* name :
       {"mxfp4", "mxfp6_e2m3", "mxfp6_e3m2", "mxfp8_e4m3", "mxfp8_e5m2", "mxint8"}) {
    const Operand cast = operand_of(name);
    const double max = max_value(*cast.element);
    const int emax_of_element = emax(*cast.element);
    for (const float base : {1.0f, 1.5f, 1.75f, 1.875f, 1.9375f, 1.984375f, 1.9921875f, 1.999f}) {
      for (const float amax : {base, std::nextafter(base, 0.0f), std::nextafter(base, 4.0f)}) {
        const double exact = std::log2(double{amax});
        const double floor = std::ldexp(1.0, static_cast<int>(std::floor(exact)) - emax_of_element);
        EXPECT_EQ(mx_scale(cast, ScaleRule::floor, amax), floor) << name << amax;
        const double ceil = std::ldexp(1.0, static_cast<int>(std::ceil(exact)) - emax_of_element);
        EXPECT_EQ(mx_scale(cast, ScaleRule::ceil, amax), ceil) << name << amax;
        const double rceil = amax <= max * floor ? floor : 2 * floor;
        EXPECT_EQ(mx_scale(cast, ScaleRule::rceil, amax), rceil) << name << amax;
      }
    }
  }
  // E2M1 `even` goes up where rounding to nearest would give 8: from 7/8 of the binade on.
  EXPECT_EQ(mx_scale(operand_of("mxfp4"), ScaleRule::even, 7.0f), 2.0f);
  EXPECT_EQ(mx_scale(operand_of("mxfp4"), ScaleRule::even, std::nextafter(7.0f, 0.0f)), 1.0f);
}

TEST(Mx, MseTakesTheBetterOfTwoScales) {
  Operand cast = operand_of("mxfp4");
  const auto error = [&](const Values& x, ScaleRule rule) {
    cast.scale_rule = rule;
    const Prepared q(cast, view_of(x, 1, 32), 32);
    double sum = 0;
    for (size_t i = 0; i < x.size(); ++i) sum += std::pow(double{x[i]} - q.values()[i], 2);
    return sum;
  };
  int up = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const Values x = normals(32, seed);
    const double floor = error(x, ScaleRule::floor);
    const double mse = error(x, ScaleRule::mse);
    EXPECT_LE(mse, floor);
    up += mse < floor ? 1 : 0;
  }
  EXPECT_GT(up, 0);
  EXPECT_LT(up, 40);
  // 4 is exact under both scales: a tie stays with floor's.
  EXPECT_EQ(mx_scale(operand_of("mxfp4"), ScaleRule::mse, 4.0f), 1.0f);
}

TEST(Mx, EdgeCasesOfTheSpecification) {
  const Operand cast = operand_of("mxfp4");
  const Values zeros = block_of({0.0f, -0.0f}, 32);
  const Prepared zero(cast, view_of(zeros, 1, 32), 32);
  EXPECT_EQ(zero.parts().scale(0, 0), 0x1p-127f);
  EXPECT_EQ(first_codes(zero, 2), (Codes{0, 8}));
  const Values tiny = block_of({0x1p-127f, 0x1.8p-129f, 0x1p-129f, 0x1p-149f}, 32);
  const Prepared clamped(cast, view_of(tiny, 1, 32), 32);
  EXPECT_EQ(clamped.parts().scale(0, 0), 0x1p-127f);
  EXPECT_EQ(first_codes(clamped, 4), (Codes{2, 1, 0, 0}));  // a tie at 2^-129 goes to 0
  const Values largest = block_of({kFloatMax, -kFloatMax}, 32);
  EXPECT_EQ(Prepared(cast, view_of(largest, 1, 32), 32).parts().scale(0, 0), 0x1p125f);
  EXPECT_EQ(mx_scale(operand_of("mxint8"), ScaleRule::floor, kFloatMax), 0x1p127f);
  EXPECT_EQ(mx_scale(operand_of("mxint8"), ScaleRule::rceil, kFloatMax), 0x1p127f);  // clamped
  EXPECT_EQ(mx_scale(cast, ScaleRule::even, kFloatMax), 0x1p126f);
  for (const float bad : {kNan, kInf, -kInf}) {
    Values x = normals(64, 1);
    x[33] = bad;
    OperandStats stats;
    const Prepared q(cast, view_of(x, 1, 64), 32, Contract::cols, counting(stats));
    EXPECT_TRUE(std::isfinite(q.parts().scale(0, 0)));
    EXPECT_TRUE(std::isnan(q.parts().scale(0, 32)));
    for (int64_t k = 32; k < 64; ++k) {
      EXPECT_EQ(q.code(0, k), 0);
      EXPECT_TRUE(std::isnan(q.value(0, k)));
    }
    EXPECT_EQ(stats.nan + stats.inf, 1u);
    EXPECT_EQ(stats.values, 64u);
  }
}

TEST(Nvfp4, WorkedExamplesOfTheSpecification) {
  const Values x = block_of({12,  -3,    1,   .4f, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,  //
                             .9f, -.25f, .1f, .02f},
                            32);
  const Prepared q(operand_of("nvfp4"), view_of(x, 1, 32), 16);
  EXPECT_EQ(*q.parts().tensor_scales, 1.0f / 224.0f);
  EXPECT_EQ(q.parts().scale(0, 0), 448.0f);
  EXPECT_EQ(first_codes(q, 4), (Codes{7, 0xB, 1, 0}));
  EXPECT_EQ(q.parts().scale(0, 16), 32.0f);
  EXPECT_EQ(q.value(0, 16), 6 * 32.0f * (1.0f / 224.0f));
  EXPECT_NEAR(q.value(0, 17), -0.214, 1e-3);
  EXPECT_NEAR(q.value(0, 18), 0.0714, 1e-4);
  EXPECT_EQ(q.value(0, 19), 0.0f);
}

TEST(Nvfp4, ZeroScaleBlocksKeepTheSignsOfTheirZeros) {
  const Values x = block_of({1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1e-7f, -1e-7f}, 32);
  OperandStats stats;
  const Prepared q(operand_of("nvfp4"), view_of(x, 1, 32), 16, Contract::cols, counting(stats));
  EXPECT_EQ(q.parts().scale(0, 16), 0.0f);
  EXPECT_EQ(q.code(0, 16), 0);
  EXPECT_EQ(q.code(0, 17), 8);
  EXPECT_EQ(stats.flushed, 2u);
  EXPECT_EQ(stats.saturated, 0u);
  const Values zeros(32, 0.0f);
  const Prepared zero(operand_of("nvfp4"), view_of(zeros, 1, 32), 16);
  EXPECT_EQ(*zero.parts().tensor_scales, 1.0f);
  for (const float v : zero.values()) EXPECT_EQ(v, 0.0f);
}

TEST(Nvfp4, NonFiniteValuesBecomeTheLargestAndAreCounted) {
  Values x = normals(32, 3);
  x[1] = kNan;
  x[2] = -kInf;
  OperandStats stats;
  const Prepared q(operand_of("nvfp4"), view_of(x, 1, 32), 16, Contract::cols, counting(stats));
  EXPECT_EQ(q.code(0, 1), 7);
  EXPECT_EQ(q.code(0, 2), 0xF);
  EXPECT_EQ(*q.parts().tensor_scales, 1.0f);  // the amax is infinite
  EXPECT_EQ(stats.nan, 1u);
  EXPECT_EQ(stats.inf, 1u);
}

TEST(Nvfp4, UpNeverClipsAndNearestDoes) {
  const Values x = normals(64 * 64, 4);
  Operand cast = operand_of("nvfp4");
  OperandStats nearest;
  OperandStats up;
  (void)Prepared(cast, view_of(x, 64, 64), 16, Contract::cols, counting(nearest));
  cast.scale_rule = ScaleRule::up;
  const Prepared q(cast, view_of(x, 64, 64), 16, Contract::cols, counting(up));
  EXPECT_GT(nearest.saturated, 20u);
  // x · inv may exceed 6 by roundings of the multiplier alone, never by a part of a step.
  for (int64_t r = 0; r < 64; ++r)
    for (int64_t k = 0; k < 64; ++k)
      EXPECT_LE(std::fabs(x[static_cast<size_t>(r * 64 + k)]),
                6.00001f * q.parts().scale(r, k) * *q.parts().tensor_scales);
}

TEST(Nvfp4, TensorScaleNoneAndPow2) {
  const Values x = block_of({12, -3, 1, .4f}, 16);
  Operand cast = operand_of("nvfp4");
  cast.tensor_scale = ScaleKind::none;
  const Prepared none(cast, view_of(x, 1, 16), 16);
  EXPECT_EQ(*none.parts().tensor_scales, 1.0f);
  EXPECT_EQ(none.parts().scale(0, 0), 2.0f);                 // 12 / 6
  EXPECT_EQ(first_values(none, 4), (Values{12, -3, 1, 0}));  // 0.2 · 2 rounds to 0
  cast.tensor_scale = ScaleKind::pow2;
  const Prepared pow2(cast, view_of(x, 1, 16), 16);
  EXPECT_EQ(*pow2.parts().tensor_scales, 0x1p-7f);  // 1/224 rounded up
  EXPECT_EQ(pow2.parts().scale(0, 0), 256.0f);      // 2 · 2^7
  EXPECT_EQ(first_values(pow2, 4), (Values{12, -3, 1, 0}));
}

TEST(Nvfp4, TilesOfATransposeAreTheTransposedTiles) {
  const Values x = normals(40 * 24, 5);
  for (const char* name : {"nvfp4", "mxfp4", "fp8_e4m3"}) {
    Operand cast = operand_of(name);
    cast.block = {.kind = Block::Kind::tile, .rows = 16, .cols = 16};
    const Prepared straight(cast, view_of(x, 40, 24), 16);
    const Prepared transposed(cast, view_of(x, 40, 24), 16, Contract::rows);
    for (int64_t r = 0; r < 40; ++r)
      for (int64_t c = 0; c < 24; ++c)
        ASSERT_EQ(straight.value(r, c), transposed.value(c, r)) << name;
  }
}

TEST(Fp8, WorkedExamplesAndEdgesOfTheTensorScale) {
  Operand cast = operand_of("fp8_e4m3");
  const Values x = {3.7f, 1.0f, 0.01f, 1e-5f};
  const Prepared q(cast, view_of(x, 1, 4));
  EXPECT_EQ(q.parts().scale(0, 0), 1.0f / (448.0f / 3.7f));
  EXPECT_FLOAT_EQ(q.value(0, 0), 3.7f);
  EXPECT_NEAR(q.value(0, 1), 0.99107, 1e-5);
  EXPECT_NEAR(q.value(0, 2), 0.010324, 1e-6);
  EXPECT_NEAR(q.value(0, 3), 1.613e-5, 1e-8);
  cast.scale = ScaleKind::pow2;
  EXPECT_EQ(Prepared(cast, view_of(x, 1, 4)).parts().scale(0, 0), 1.0f / 64);
  const auto scale = [](const Operand& c, float amax) {
    const Values one = {amax, 0.0f};
    return Prepared(c, view_of(one, 1, 2)).parts().scale(0, 0);
  };
  EXPECT_EQ(scale(cast, 0x1p-149f), 0x1p-127f);
  EXPECT_EQ(scale(operand_of("fp8_e4m3"), 1e-45f), 1.0f / kFloatMax);
  for (const float none : {0.0f, kInf, kNan}) {
    EXPECT_EQ(scale(operand_of("fp8_e4m3"), none), 1.0f);
    EXPECT_EQ(scale(cast, none), 1.0f);
  }
}

TEST(Fp8, SpecialOverflowKeepsInfinitiesAndNan) {
  Operand cast = operand_of("fp8_e5m2");
  cast.overflow = Overflow::special;
  const Values x = {kInf, 1.0f, kNan, -kInf};
  const Prepared q(cast, view_of(x, 1, 4));
  EXPECT_EQ(q.codes(), (Codes{0x7C, 0x3C, 0x7F, 0xFC}));
}

TEST(Fp8, DelayedScalingUsesTheStoredScaleAndGathersTheAmax) {
  Operand cast = operand_of("fp8_e4m3");
  cast.scaling = Scaling::delayed;
  cast.amax_history = 4;
  float encode_scale = 1.0f;
  float history[4] = {};
  OperandStats stats;
  PrepareContext context = counting(stats);
  context.delayed = {&encode_scale, history};
  const auto prepared = [&](float amax) {
    const Values x = {amax, -1.0f};
    return Prepared(cast, view_of(x, 1, 2), 1, Contract::cols, context).value(0, 0);
  };
  EXPECT_EQ(prepared(900.0f), 448.0f);  // saturates for one step
  EXPECT_EQ(stats.saturated, 1u);
  EXPECT_EQ(prepared(20.0f), 20.0f);
  EXPECT_EQ(history[0], 900.0f);
  perform(RollDelayedScale{cast, context.delayed});
  EXPECT_EQ(encode_scale, 448.0f / 900.0f);
  EXPECT_EQ(std::vector<float>(history, history + 4), (Values{0, 0, 0, 900}));
  for (const float amax : {8.0f, 7.0f, 6.0f}) {  // the spike is remembered while it is in a slot
    EXPECT_EQ(encode_scale, 448.0f / 900.0f);
    (void)prepared(amax);
    perform(RollDelayedScale{cast, context.delayed});
  }
  EXPECT_EQ(std::vector<float>(history, history + 4), (Values{0, 8, 7, 6}));
  (void)prepared(5.0f);
  perform(RollDelayedScale{cast, context.delayed});
  EXPECT_EQ(encode_scale, 448.0f / 8.0f);
  context.update_history = false;
  (void)prepared(100.0f);
  EXPECT_EQ(history[0], 0.0f);
}

TEST(Fp8, RollKeepsTheScaleWithoutAUsableAmax) {
  Operand cast = operand_of("fp8_e4m3");
  cast.scaling = Scaling::delayed;
  cast.amax_history = 3;
  for (const float newest : {0.0f, kInf, kNan}) {
    float encode_scale = 5.0f;
    float history[3] = {newest, 1.0f, 2.0f};
    perform(RollDelayedScale{cast, {&encode_scale, history}});
    EXPECT_EQ(encode_scale, 5.0f);
    EXPECT_EQ(std::vector<float>(history, history + 3), (Values{0, 1, 2}));
  }
  float encode_scale = 5.0f;
  float history[3] = {4.0f, 16.0f, 2.0f};
  cast.margin = 1;
  perform(RollDelayedScale{cast, {&encode_scale, history}});
  EXPECT_EQ(encode_scale, 224.0f / 16.0f);
  EXPECT_EQ(std::vector<float>(history, history + 3), (Values{0, 2, 4}));
  cast.amax_compute = AmaxCompute::most_recent;
  cast.margin = 0;
  history[0] = 3.0f;
  perform(RollDelayedScale{cast, {&encode_scale, history}});
  EXPECT_EQ(encode_scale, 448.0f / 3.0f);
  cast.amax_history = 1;
  history[0] = 1e-45f;
  perform(RollDelayedScale{cast, {&encode_scale, history}});
  EXPECT_EQ(encode_scale, kFloatMax);
}

TEST(Integers, WorkedExampleAndEdges) {
  const Values x = {-1.0f, .2f, 2.0f};
  const Prepared q(operand_of("int8"), view_of(x, 1, 3));
  EXPECT_EQ(q.parts().scale(0, 0), 2.0f / 127);
  EXPECT_EQ(q.codes(), (Codes{0xC0, 13, 127}));
  EXPECT_NEAR(q.value(0, 0), -1.00787, 1e-5);
  EXPECT_NEAR(q.value(0, 1), .20472, 1e-5);
  const Values rows = {0.0f, -0.0f, 7.0f, -3.5f, 1e-45f, 0.0f};
  const Prepared edges(operand_of("int4"), view_of(rows, 3, 2));
  EXPECT_EQ(edges.parts().scale(0, 0), 1.0f);
  EXPECT_EQ(edges.parts().scale(1, 0), 1.0f);
  EXPECT_EQ(edges.parts().scale(2, 0), 1.0f);  // 2^-149 / 7 underflows
  EXPECT_EQ(edges.codes(), (Codes{0, 0, 7, 0xC, 0, 0}));
  const AffineScale affine = affine_scale_of(-1.0f, 2.0f, 255);
  EXPECT_EQ(affine.scale, 3.0f / 255);
  EXPECT_EQ(affine.zero, 85u);
  EXPECT_EQ(affine_scale_of(0, 0, 255).scale, 1.0f);
  EXPECT_EQ(affine_scale_of(1, 4, 15).zero, 0u);
  EXPECT_EQ(affine_scale_of(-4, -1, 15).zero, 15u);
  const AffineScale wide = affine_scale_of(-3e38f, 3e38f, 255);  // hi - lo is no FP32 number
  EXPECT_EQ(wide.scale, static_cast<float>((double{3e38f} + double{3e38f}) / 255));
  EXPECT_EQ(wide.zero, 128u);
}

// [rivals.md 2.5, iii]
TEST(Integers, TernaryElementsTakeTheMeanOfAllMagnitudes) {
  Operand cast = operand_of("int4");
  cast.element = &element_format("ternary");
  cast.block = {};
  cast.scale_of = ScaleOf::mean_abs;
  const Values x = {.9f, -.1f, .2f, -2.8f};  // of mean 1
  const Prepared q(cast, view_of(x, 2, 2));
  EXPECT_EQ(q.parts().scale(0, 0), 1.0f);
  EXPECT_EQ(q.codes(), (Codes{1, 0, 0, 3}));
  EXPECT_EQ(q.values(), (Values{1, 0, 0, -1}));
  const Values sparse = {3, 0, 0, 0, 0, -3};
  EXPECT_EQ(Prepared(cast, view_of(sparse, 1, 6)).parts().scale(0, 0), 1.0f) << "zeros count";
  const Values zeros(6, 0.0f), tiny = {1e-6f, 0, 0};
  EXPECT_EQ(Prepared(cast, view_of(zeros, 2, 3)).parts().scale(0, 0), 1e-5f);
  EXPECT_EQ(Prepared(cast, view_of(tiny, 1, 3)).parts().scale(0, 0), 1e-5f);
  cast.block = {.kind = Block::Kind::row};
  const Prepared rows(cast, view_of(sparse, 2, 3));
  EXPECT_EQ(rows.parts().scale(1, 0), 1.0f);
}

}  // namespace
}  // namespace ng::ref
