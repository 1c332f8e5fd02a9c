// Encoding to int8, in rows and in columns, against the scalar definition, on every instruction
// set.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "backend/cpu/kernel_testing.h"
#include "backend/cpu/quantize/job.h"
#include "backend/cpu/quantize/kernels.h"
#include "base/sanitized_testing.h"
#include "format/codec.h"
#include "format/scale.h"

namespace ng::cpu {
namespace {

/// Two blocks of 32 along K for each of sixteen rows, some of zeros, and their E8M0 scales.
struct ScaledBlocks {
  static constexpr int64_t kRows = 16, kCols = 64, kBlock = 32;
  std::vector<float> values = std::vector<float>(kRows * kCols);  // [row][k]
  std::vector<uint16_t> draws = std::vector<uint16_t>(kRows * kCols);
  std::vector<uint32_t> amax = std::vector<uint32_t>(kRows * 2);  // [row][block]
  std::vector<float> multipliers = std::vector<float>(kRows * 2);

  /// The largest values are in [2^exponent, 2^(exponent + 2)), of blocks that grow.
  ScaledBlocks(const ElementFormat& format, int exponent) {
    std::mt19937 random(static_cast<uint32_t>(exponent + 200));
    std::uniform_real_distribution<double> mantissa(-2, 2);
    for (size_t i = 0; i < values.size(); ++i) {
      const size_t block = i / kBlock;
      const int below = random() % 4 == 0 ? static_cast<int>(random() % 60) : 0;
      const double x = std::ldexp(mantissa(random), exponent + static_cast<int>(block % 2) - below);
      values[i] = block % 7 == 3 ? 0.0f : static_cast<float>(x);
      if (!std::isfinite(values[i])) values[i] = kFloatMax;
      draws[i] = static_cast<uint16_t>(random());
      amax[block] = std::max(amax[block], float_bits(std::fabs(values[i])));
    }
    const ElementRange range = range_of(format);
    for (size_t b = 0; b < amax.size(); ++b) {
      const float a = float_of_bits(amax[b]);
      const uint32_t code = a == 0 ? 0 : e8m0_code(e8m0_exponent(ScaleRule::floor, a, range));
      multipliers[b] = e8m0_multiplier(code);
    }
  }

  /// By the definition.
  [[nodiscard]] int8_t integer(const ElementFormat& format, size_t i, float prescale,
                               bool stochastic) const {
    const Rounder rounder = {stochastic ? RoundMode::sr : RoundMode::rne, 16, draws[i]};
    const float y = values[i] * prescale * multipliers[i / kBlock];
    return static_cast<int8_t>(decode(format, encode(format, y, rounder)) / int8_unit(format));
  }
  [[nodiscard]] EncodeCounts counts(const ElementFormat& format, float prescale,
                                    bool stochastic) const {
    EncodeCounts counts;
    for (size_t i = 0; i < values.size(); ++i) {
      const float y = values[i] * prescale * multipliers[i / kBlock];
      counts.saturated += std::fabs(y) > max_value(format) ? 1 : 0;
      counts.flushed += values[i] != 0 && integer(format, i, prescale, stochastic) == 0 ? 1 : 0;
    }
    return counts;
  }
};

// As rows and as columns; [row][k] of the result.
std::vector<int8_t> encode_rows(const ElementFormat& format, const ScaledBlocks& blocks,
                                float prescale, bool stochastic, EncodeCounts& counts) {
  std::vector<int8_t> out(blocks.values.size());
  EncodeTile tile{.values = {blocks.values.data(), ScaledBlocks::kCols}};
  tile.rows = ScaledBlocks::kRows;
  tile.cols = tile.counted_cols = tile.out_stride = tile.draw_stride = ScaledBlocks::kCols;
  tile.block = ScaledBlocks::kBlock;
  tile.multipliers = blocks.multipliers.data();
  tile.amax = blocks.amax.data();
  tile.multiplier_stride = 2;
  tile.prescale = prescale;
  tile.draws = stochastic ? blocks.draws.data() : nullptr;
  tile.form = ElementForm::int8;
  tile.unit = int8_unit(format);
  tile.out = out.data();
  counts = encode_tile(element_grid(format, Overflow::saturate), tile);
  return out;
}

std::vector<int8_t> encode_columns(const ElementFormat& format, const ScaledBlocks& blocks,
                                   float prescale, bool stochastic, EncodeCounts& counts) {
  constexpr int64_t kRows = ScaledBlocks::kRows, kCols = ScaledBlocks::kCols;
  ScaledBlocks turned = blocks;
  for (int64_t r = 0; r < kRows; ++r) {
    for (int64_t k = 0; k < kCols; ++k) {
      const auto from = static_cast<size_t>(r * kCols + k), to = static_cast<size_t>(k * kRows + r);
      turned.values[to] = blocks.values[from];
      turned.draws[to] = blocks.draws[from];
    }
    for (int64_t b = 0; b < 2; ++b) {
      const auto from = static_cast<size_t>(r * 2 + b), to = static_cast<size_t>(b * kRows + r);
      turned.amax[to] = blocks.amax[from];
      turned.multipliers[to] = blocks.multipliers[from];
    }
  }
  std::vector<int8_t> words(blocks.values.size()), out(blocks.values.size());
  ColumnTile tile{.values = {turned.values.data(), kRows}};
  tile.k = tile.counted_k = kCols;
  tile.block = ScaledBlocks::kBlock;
  tile.multipliers = turned.multipliers.data();
  tile.amax = turned.amax.data();
  tile.prescale = prescale;
  tile.draws = stochastic ? turned.draws.data() : nullptr;
  tile.draw_stride = kRows;
  tile.unit = int8_unit(format);
  tile.out = words.data();
  counts = cpu::encode_columns(element_grid(format, Overflow::saturate), tile);
  for (int64_t r = 0; r < kRows; ++r)
    for (int64_t k = 0; k < kCols; ++k)
      out[static_cast<size_t>(r * kCols + k)] =
          words[static_cast<size_t>((k / 4 * kRows + r) * 4 + k % 4)];
  return out;
}

// Scales from the smallest to the largest, so that scaled values reach from subnormal to infinite;
// three quarters leave nothing to saturate.
TEST(QuantizeUnits, IntegersUnderEveryScaleAreThoseOfTheDefinition) {
  on_every_isa([&] {
    for (const char* name : {"e2m1", "e2m3", "mxint8"})
      for (int exponent = -150; exponent < 128; exponent += std::abs(exponent) < 93 ? 9 : 1)
        for (const float prescale : {1.0f, 0.75f, 1.5f})
          for (const bool stochastic : {false, true})
            for (const auto encode_as : {encode_rows, encode_columns}) {
              if (is_left_out()) continue;
              const ElementFormat& format = element_format(name);
              const ScaledBlocks blocks(format, exponent);
              EncodeCounts counts;
              const std::vector<int8_t> out =
                  encode_as(format, blocks, prescale, stochastic, counts);
              for (size_t i = 0; i < out.size(); ++i)
                ASSERT_EQ(out[i], blocks.integer(format, i, prescale, stochastic))
                    << name << " 2^" << exponent << " * " << prescale << " of " << blocks.values[i]
                    << (encode_as == encode_rows ? " in rows" : " in columns");
              const EncodeCounts expected = blocks.counts(format, prescale, stochastic);
              ASSERT_EQ(counts.saturated, expected.saturated) << name << " 2^" << exponent;
              ASSERT_EQ(counts.flushed, expected.flushed) << name << " 2^" << exponent;
            }
  });
}

// Blocks of every width that are multiplied differently, rows that end within one, and padding.
TEST(QuantizeUnits, BlocksOfEveryWidthHaveTheirOwnScales) {
  const ElementFormat& format = element_format("e2m1");
  constexpr int64_t kRows = 3, kCols = 272, kCounted = 250;
  std::mt19937 random(29);
  std::uniform_real_distribution<float> uniform(-7, 7);
  for (const int64_t block : {8, 16, 32, 48, 64, 128, 192, 272})
    for (const bool has_zeros : {false, true}) {
      const int64_t blocks = ceil_div(kCols, block);
      std::vector<float> values(kRows * kCols), multipliers;
      std::vector<uint32_t> amax(static_cast<size_t>(kRows * blocks));
      for (int64_t b = 0; b < kRows * blocks; ++b)
        multipliers.push_back(pow2(static_cast<int>(b % 5)));
      const auto scale_at = [&](size_t i) {
        const auto at = static_cast<int64_t>(i);
        return static_cast<size_t>(at / kCols * blocks + at % kCols / block);
      };
      EncodeCounts expected;
      std::vector<int8_t> want, out(values.size());
      for (size_t i = 0; i < values.size(); ++i) {
        values[i] = has_zeros && i % 7 == 0 ? -0.0f : uniform(random) / multipliers[scale_at(i)];
        uint32_t& most = amax[scale_at(i)];
        most = std::max(most, float_bits(std::fabs(values[i])));
        const float y = values[i] * multipliers[scale_at(i)];
        want.push_back(
            static_cast<int8_t>(decode(format, encode(format, y, {})) / int8_unit(format)));
        if (static_cast<int64_t>(i) % kCols >= kCounted) continue;
        expected.saturated += std::fabs(y) > max_value(format) ? 1 : 0;
        expected.flushed += y != 0 && want.back() == 0 ? 1 : 0;
      }
      EncodeTile tile{.values = {values.data(), kCols}, .rows = kRows, .cols = kCols};
      tile.counted_cols = kCounted;
      tile.out_stride = kCols;
      tile.block = block;
      tile.multipliers = multipliers.data();
      tile.amax = amax.data();
      tile.multiplier_stride = blocks;
      tile.form = ElementForm::int8;
      tile.unit = int8_unit(format);
      tile.out = out.data();
      on_every_isa([&] {
        const EncodeCounts counts = encode_tile(element_grid(format, Overflow::saturate), tile);
        EXPECT_EQ(out, want) << "blocks of " << block;
        EXPECT_EQ(counts.saturated, expected.saturated) << "blocks of " << block;
        EXPECT_EQ(counts.flushed, expected.flushed) << "blocks of " << block;
        std::fill(out.begin(), out.end(), int8_t{0});
      });
    }
}

// Where a product of prescale and multiplier is rounded, or is subnormal, values near a tie are not
// theirs.
TEST(QuantizeUnits, IntegersNearTiesAreThoseOfTheDefinition) {
  const ElementFormat& format = element_format("e2m1");
  ScaledBlocks blocks(format, 0);
  std::mt19937 random(13);
  std::uniform_real_distribution<float> mantissa(1, 2);
  // Multipliers with a fraction, and powers of two.
  for (const int exponent : {0, -1, -110, -124, -125, 90})
    for (const bool has_fraction : {false, true})
      for (const float prescale : {1.0f, 0.75f, 0.7f, 0.2f, 0.1f}) {
        for (float& m : blocks.multipliers)
          m = std::ldexp(has_fraction ? mantissa(random) : 1.0f, exponent);
        std::fill(blocks.amax.begin(), blocks.amax.end(), 0u);
        for (size_t i = 0; i < blocks.values.size(); ++i) {
          const size_t block = i / ScaledBlocks::kBlock;
          const float tie = i % 2 == 0 ? 1.25f : 0.25f;
          const uint32_t near = float_bits(tie / prescale / blocks.multipliers[block]);
          blocks.values[i] = float_of_bits(near + static_cast<uint32_t>(i % 7) - 3);
          if (!std::isfinite(blocks.values[i])) blocks.values[i] = kFloatMax;
          blocks.amax[block] = std::max(blocks.amax[block], float_bits(blocks.values[i]));
        }
        on_every_isa([&] {
          for (const bool stochastic : {false, true})
            for (const auto encode_as : {encode_rows, encode_columns}) {
              EncodeCounts counts;
              const std::vector<int8_t> out =
                  encode_as(format, blocks, prescale, stochastic, counts);
              for (size_t i = 0; i < out.size(); ++i)
                ASSERT_EQ(out[i], blocks.integer(format, i, prescale, stochastic))
                    << blocks.values[i] << " * " << prescale << " * 2^" << exponent;
            }
        });
      }
}

// The example of packed.h.
TEST(PackedLayout, InterleavesWordsOfSixteenRows) {
  OperandSpec spec;
  spec.cast = operand_of("mxfp4");
  spec.rows = 100;
  spec.k = 96;
  const PackedLayout layout = packed_layout(spec);
  EXPECT_TRUE(layout.interleaved);
  EXPECT_EQ(layout.index(17, 33), 2053);
  EXPECT_EQ(layout.blocks, 3);
  EXPECT_EQ(layout.scales_at, 10752U);
  EXPECT_EQ(layout.tensor_at, 11968U);
  EXPECT_EQ(layout.bytes, 12032U);
}

}  // namespace
}  // namespace ng::cpu
