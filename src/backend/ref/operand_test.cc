#include "backend/ref/operand.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "format/codec.h"
#include "format/hadamard.h"
#include "support/prepared_operand.h"

namespace ng::ref {
namespace {

constexpr float kOperandInf = std::numeric_limits<float>::infinity();
constexpr float kOperandNan = std::numeric_limits<float>::quiet_NaN();

using Codes = std::vector<uint16_t>;
using Values = std::vector<float>;

TEST(Stochastic, DrawsBelongToThePlaceInTheWholeUntransposedTensor) {
  const int64_t rows = 6;
  const int64_t cols = 11;  // not a multiple of the draw groups of 8
  const Values x = normals(rows * cols, 6);
  Operand cast = operand_of("bf16");
  cast.rounding = Rounding::stochastic;
  for (const int bits : {8, 16, 32}) {
    cast.sr_bits = bits;
    const PrepareContext context =
        drawing({.seed = 9, .tensor = 4, .step = 2, .purpose = Purpose::dgrad_grad, .micro = 1});
    const Prepared straight(cast, view_of(x, rows, cols), 1, Contract::cols, context);
    const Prepared transposed(cast, view_of(x, rows, cols), 1, Contract::rows, context);
    PrepareContext lower = context;
    lower.first_row = 2;
    const Prepared shard(cast, view_of(x, rows, cols).slice(2, 4), 1, Contract::cols, lower);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < cols; ++c) {
        const Rounder rounder = {
            .mode = RoundMode::sr,
            .bits = bits,
            .random = random_bits(context.key, static_cast<uint64_t>(r), static_cast<uint64_t>(c),
                                  static_cast<uint64_t>(cols), bits)};
        const float v = x[static_cast<size_t>(r * cols + c)];
        EXPECT_EQ(straight.code(r, c), encode(*cast.element, v, rounder));
        EXPECT_EQ(straight.code(r, c), transposed.code(c, r));
        if (r >= 2) {
          EXPECT_EQ(straight.code(r, c), shard.code(r - 2, c));
        }
      }
    }
  }
}

TEST(Stochastic, PrescaledMxfp4IsUnbiasedUpToTheTopOfItsBlock) {
  // A block whose amax is 7.9·2^3: the prescale keeps every value below 6, so over all 256 R each
  // element goes up exactly floor(f·256) times, the top ones included. [recipes.md §2.4]
  Operand cast = operand_of("mxfp4");
  cast.rounding = Rounding::stochastic;
  cast.prescale = 0.75f;
  cast.sr_bits = 8;
  const Values x = block_of({7.9f * 8, -5.3f * 8, 3.3f * 8, 0.3f * 8}, 32);
  const RandomKey key = {.seed = 1, .purpose = Purpose::wgrad_grad};
  OperandStats stats;
  const Prepared q(cast, view_of(x, 1, 32), 32, Contract::cols, drawing(key, &stats));
  EXPECT_EQ(q.parts().scale(0, 0), 8.0f);
  EXPECT_EQ(stats.saturated, 0u);
  const double low[] = {4, 3, 2, 0};  // neighbours of |x|·0.75/8 = 5.925, 3.975, 2.475, 0.225
  const double high[] = {6, 4, 3, 0.5};
  for (size_t k = 0; k < 4; ++k) {
    const float y = x[k] * 0.75f / 8;
    double sum = 0;
    for (uint32_t r = 0; r < 256; ++r)
      sum += decode(*cast.element, encode(*cast.element, y, {RoundMode::sr, 8, r}));
    const double ups = std::floor((std::fabs(y) - low[k]) / (high[k] - low[k]) * 256);
    EXPECT_EQ(std::fabs(sum), 256 * low[k] + ups * (high[k] - low[k])) << k;
    EXPECT_EQ(q.codes()[k],
              encode(*cast.element, y, {RoundMode::sr, 8, random_bits(key, 0, k, 32, 8)}));
  }
}

TEST(Order, ScalesComeFromTheTransformedValuesBeforeThePrescale) {
  const Values x = normals(2 * 64, 7);
  Operand cast = operand_of("mxfp4");
  cast.prescale = 0.75f;
  OperandSpec spec = spec_of(cast, view_of(x, 2, 64), Contract::cols, 64);
  spec.hadamard = {.size = 64, .signs = {0x13579BDFu, 0x2468ACE0u, 0, 0}};
  const Prepared q(spec, view_of(x, 2, 64));
  for (int64_t r = 0; r < 2; ++r) {
    Values z(x.begin() + r * 64, x.begin() + (r + 1) * 64);
    hadamard_transform(z.data(), 64, spec.hadamard.signs.data());
    for (int64_t first = 0; first < 64; first += 32) {
      float amax = 0;
      for (int64_t k = first; k < first + 32; ++k)
        amax = std::max(amax, std::fabs(z[static_cast<size_t>(k)]));
      const float scale = std::ldexp(1.0f, static_cast<int>(std::floor(std::log2(amax))) - 2);
      EXPECT_EQ(q.parts().scale(r, first), scale);
      for (int64_t k = first; k < first + 32; ++k) {
        const float y = z[static_cast<size_t>(k)] * 0.75f / scale;
        EXPECT_EQ(q.code(r, k), encode(*cast.element, y)) << r << " " << k;
      }
    }
  }
}

TEST(Order, PaddedPositionsAreZeroUnlessTransformed) {
  const Values x(3 * 5, 1.0f);
  Operand cast = operand_of("mxfp4");
  cast.rounding = Rounding::stochastic;
  OperandStats stats;
  const PrepareContext context = drawing({.purpose = Purpose::wgrad_grad}, &stats);
  const Prepared q(cast, view_of(x, 3, 5), 64, Contract::cols, context);
  for (int64_t r = 0; r < 3; ++r)
    for (int64_t k = 5; k < 64; ++k) EXPECT_EQ(q.code(r, k), 0);
  EXPECT_EQ(stats.values, 15u);
  OperandSpec spec = spec_of(operand_of("fp32"), view_of(x, 3, 5), Contract::cols, 16);
  spec.hadamard.size = 16;
  const Prepared transformed(spec, view_of(x, 3, 5));
  float energy = 0;
  for (const float v : transformed.values()) energy += v * v;
  EXPECT_EQ(energy, 15.0f);  // c_16² · 16 = 1: the transform keeps the sum of squares
}

TEST(Unscaled, CastsKeepSpecialValuesAsTheirPolicySays) {
  const Values x = {kOperandInf, -kOperandInf, kOperandNan, 3.4e38f, 70000.0f, 1e-8f};
  Operand bf16 = operand_of("bf16");  // special: the range is FP32's
  EXPECT_EQ(first_codes(Prepared(bf16, view_of(x, 1, 6)), 4),
            (Codes{0x7F80, 0xFF80, 0x7FFF, 0x7F80}));
  bf16.overflow = Overflow::saturate;
  EXPECT_EQ(first_codes(Prepared(bf16, view_of(x, 1, 6)), 4),
            (Codes{0x7F7F, 0xFF7F, 0x7FFF, 0x7F7F}));
  Operand fp16 = operand_of("fp16");
  fp16.overflow = Overflow::special;
  EXPECT_EQ(Prepared(fp16, view_of(x, 1, 6)).codes(),
            (Codes{0x7C00, 0xFC00, 0x7FFF, 0x7C00, 0x7C00, 0}));
  const uint32_t payload = 0xFFA00123u;
  const Values odd = {float_of_bits(payload), -0.0f};
  OperandStats stats;
  const Prepared fp32(operand_of("fp32"), view_of(odd, 1, 2), 1, Contract::cols, counting(stats));
  EXPECT_EQ(float_bits(fp32.parts().elements[0]), payload);
  EXPECT_EQ(stats.nan, 1u);
}

TEST(Hadamard, SignsComeFromTheKeyOrTheFixedVector) {
  const RandomKey key = {.seed = 5, .tensor = 3, .step = 8, .purpose = Purpose::hadamard_signs};
  EXPECT_EQ(signs_of(key, 1), draw(key, 1));
  EXPECT_NE(signs_of(key, 1), signs_of(key, 0));
  RandomKey wrong = key;
  wrong.purpose = Purpose::dgrad_grad;
  EXPECT_THROW((void)signs_of(wrong, 0), InternalError);
  const char* te = "+++-+------+-+--";
  for (int j = 0; j < 64; ++j)
    EXPECT_EQ((fixed_signs()[static_cast<size_t>(j / 32)] >> (j % 32)) & 1, te[j % 16] == '-');
}

TEST(Hadamard, FollowsTheMatrixAndItsWorkedExample) {
  // The butterflies of a worked example with g = 4, c = 1/2, repeated: use g = 16 on integers,
  // where everything is exact. [formats.md §7]
  Values x(16);
  for (size_t i = 0; i < 16; ++i) x[i] = static_cast<float>(static_cast<int>(i * i % 11) - 5);
  const uint32_t signs = 0xA5C3u;
  Values z = x;
  hadamard_transform(z.data(), 16, &signs);
  for (unsigned i = 0; i < 16; ++i) {
    float expected = 0;
    for (unsigned j = 0; j < 16; ++j) {
      const float sign = ((signs >> j) & 1) != 0 ? -1.0f : 1.0f;
      expected += (__builtin_popcount(i & j) % 2 != 0 ? -1.0f : 1.0f) * sign * x[j];
    }
    EXPECT_EQ(z[i], expected * 0.25f);
  }
}

TEST(Contracts, SpecsThatCannotBeStoredAreRefused) {
  const auto refused = [](const OperandSpec& spec) {
    EXPECT_THROW((void)operand_bytes(spec), InternalError);
  };
  OperandSpec spec = {
      .cast = operand_of("mxfp4"), .rows = 1, .k = 32, .k_multiple = 32, .hadamard = {}};
  EXPECT_GT(operand_bytes(spec), 0u);
  spec.hadamard.size = 64;  // 32 is no multiple
  refused(spec);
  spec.hadamard.size = 0;
  spec.cast.overflow = Overflow::special;  // FP4 has none
  refused(spec);
  spec.cast = operand_of("mxfp8_e4m3");
  spec.cast.tensor_scale = ScaleKind::fp32;
  refused(spec);
  spec.cast.tensor_scale = ScaleKind::none;
  spec.cast.element = &element_format("uint8");
  refused(spec);
}

}  // namespace
}  // namespace ng::ref
