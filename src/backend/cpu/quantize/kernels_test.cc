// Each vector kernel against the scalar definition, on every instruction set.
#include "backend/cpu/quantize/kernels.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <random>
#include <vector>

#include "backend/cpu/kernel_testing.h"
#include "backend/cpu/quantize/job.h"
#include "format/codec.h"
#include "format/hadamard.h"
#include "format/scale.h"

namespace ng::cpu {
namespace {

/// Finite values with every upper half of 16 bits; the lower halves are 0, all ones, one half, its
/// neighbours, or random.
std::vector<float> values_with_every_upper_half() {
  std::mt19937 random(3);
  std::vector<float> values;
  for (const uint32_t low : {0u, 0xFFFFu, 0x8000u, 0x7FFFu, 0x8001u, 1u << 16, 1u << 16})
    for (uint32_t high = 0; high < 0x10000u; ++high) {
      const uint32_t bits = (high << 16) | (low >> 16 != 0 ? random() & 0xFFFFu : low);
      if ((bits & kFloatInf) != kFloatInf) values.push_back(float_of_bits(bits));
    }
  return values;
}

struct Mode {
  ElementForm form;
  bool stochastic;
  int bits;
};

void expect_rounding(const ElementFormat& format, const Mode& mode,
                     const std::vector<float>& values) {
  const ElementGrid grid = element_grid(format, Overflow::saturate);
  const auto count = static_cast<int64_t>(values.size());
  std::mt19937 random(5);
  std::vector<uint16_t> draws(values.size() + 16);
  for (uint16_t& r : draws)
    r = static_cast<uint16_t>(random() & (mode.bits == 8 ? 0xFF00 : 0xFFFF));
  std::vector<float> words(values.size());  // room for every form
  const auto* halves = reinterpret_cast<const uint16_t*>(words.data());
  const auto* integers = reinterpret_cast<const int8_t*>(words.data());
  const float one = 1.0f;
  EncodeTile tile{.values = values.data(), .stride = 0, .rows = 1, .cols = count};
  tile.counted_cols = count;
  tile.block = count;
  tile.multipliers = &one;
  tile.draws = mode.stochastic ? draws.data() : nullptr;
  tile.form = mode.form;
  if (mode.form == ElementForm::int8) tile.unit = int8_unit(format);
  tile.out = words.data();
  const EncodeCounts counts = encode_tile(grid, tile);
  EncodeCounts expected;
  for (size_t i = 0; i < values.size(); ++i) {
    Rounder rounder;
    if (mode.stochastic)
      rounder = {RoundMode::sr, mode.bits, draws[i] >> (16 - mode.bits) & 0xFFFFu};
    float want = decode(format, encode(format, values[i], rounder));
    float got = words[i];
    if (mode.form == ElementForm::bf16) got = float_of_bits(uint32_t{halves[i]} << 16);
    if (mode.form == ElementForm::int8) {
      got = static_cast<float>(integers[i]) * tile.unit;
      want += 0.0f;  // integers have one zero
    }
    ASSERT_EQ(float_bits(got), float_bits(want))
        << format.name << " of " << values[i] << " draw " << draws[i] << " bits " << mode.bits;
    expected.saturated += std::fabs(values[i]) > max_value(format) ? 1 : 0;
    expected.flushed += values[i] != 0 && want == 0 ? 1 : 0;
  }
  EXPECT_EQ(counts.saturated, expected.saturated) << format.name;
  EXPECT_EQ(counts.flushed, expected.flushed) << format.name;
}

TEST(QuantizeKernels, RoundEveryUpperHalfInEveryFormat) {
  const std::vector<float> values = values_with_every_upper_half();
  on_every_isa([&] {
    for (const ElementFormat& format : element_formats()) {
      if (!format.is_signed || format.kind == ElementKind::power || format.bits == 32) continue;
      std::vector<ElementForm> forms = {format.short_name == "fp16" ? ElementForm::fp32
                                                                    : ElementForm::bf16};
      if (int8_unit(format) != 0) forms.push_back(ElementForm::int8);
      for (const ElementForm form : forms)
        for (const Mode mode : {Mode{form, false, 16}, Mode{form, true, 8}, Mode{form, true, 16}})
          ASSERT_NO_FATAL_FAILURE(expect_rounding(format, mode, values));
    }
  });
}

TEST(QuantizeKernels, EveryDrawOfEightBitsRoundsByItsFraction) {
  const std::vector<float> magnitudes = {2.2f, 0.3f, 5.9f, 0.01f, 1.0f, -2.7f, -0.26f, 6.0f};
  on_every_isa([&] {
    for (const float x : magnitudes) {
      const std::vector<float> values(256, x);
      std::vector<uint16_t> draws(256 + 16), out(256);
      for (size_t r = 0; r < 256; ++r) draws[r] = static_cast<uint16_t>(r << 8);
      const float one = 1.0f;
      EncodeTile tile{.values = values.data(), .stride = 0, .rows = 1, .cols = 256};
      tile.counted_cols = 256;
      tile.block = 32;
      const std::vector<float> ones(8, one);
      tile.multipliers = ones.data();
      tile.draws = draws.data();
      tile.out = out.data();
      encode_tile(element_grid(element_format("e2m1"), Overflow::saturate), tile);
      const float low = decode(element_format("e2m1"),
                               encode(element_format("e2m1"), x, {.mode = RoundMode::rtz}));
      int ups = 0;
      for (const uint16_t code : out)
        ups += float_of_bits(static_cast<uint32_t>(code) << 16) != low ? 1 : 0;
      const float a = std::fabs(x);
      const float spacing = a < 2 ? 0.5f : a < 4 ? 1.0f : 2.0f;
      EXPECT_EQ(ups, static_cast<int>((a - std::fabs(low)) / spacing * 256)) << x;
    }
  });
}

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
      const int e = e8m0_exponent(ScaleRule::floor, float_of_bits(amax[b]), range);
      multipliers[b] = e8m0_multiplier(amax[b] == 0 ? 0 : e8m0_code(e));
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
  EncodeTile tile{.values = blocks.values.data(), .stride = ScaledBlocks::kCols};
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
  ColumnTile tile{.values = turned.values.data(), .stride = kRows};
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
TEST(QuantizeKernels, IntegersUnderEveryScaleAreThoseOfTheDefinition) {
  on_every_isa([&] {
    for (const char* name : {"e2m1", "e2m3", "mxint8"})
      for (int exponent = -150; exponent < 128; exponent += std::abs(exponent) < 93 ? 9 : 1)
        for (const float prescale : {1.0f, 0.75f, 1.5f})
          for (const bool stochastic : {false, true})
            for (const auto encode_as : {encode_rows, encode_columns}) {
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

// Where a product of prescale and multiplier is rounded, or is subnormal, values near a tie are not
// theirs.
TEST(QuantizeKernels, IntegersNearTiesAreThoseOfTheDefinition) {
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

TEST(QuantizeKernels, BlockScalesAreThoseOfTheScalarRules) {
  std::vector<uint32_t> amax = {0, 1, 0x003FFFFFu, 0x00400000u, 0x00400001u, 0x007FFFFFu};
  std::mt19937 random(7);
  for (uint32_t high = 0; high < 0x7F80u; ++high)
    for (const uint32_t low : {0u, 1u, 0xFFFFu, static_cast<uint32_t>(random() & 0xFFFFu)})
      amax.push_back((high << 16) | low);
  std::vector<float> decoded(amax.size()), multiplier(amax.size());
  on_every_isa([&] {
    for (const char* name : {"e2m1", "e2m3", "e3m2", "e4m3", "e5m2", "mxint8"}) {
      const ElementRange range = range_of(element_format(name));
      for (const ScaleRule rule :
           {ScaleRule::floor, ScaleRule::rceil, ScaleRule::ceil, ScaleRule::even}) {
        ScaleRequest request{.kind = ScaleKind::e8m0,
                             .rule = rule,
                             .integer = false,
                             .max = range.max,
                             .emax = range.emax,
                             .mantissa_bits = range.mantissa_bits,
                             .two_level = {}};
        block_scales(request, amax.data(), static_cast<int64_t>(amax.size()), decoded.data(),
                     multiplier.data());
        for (size_t i = 0; i < amax.size(); ++i) {
          const float a = float_of_bits(amax[i]);
          const uint32_t code = a == 0 ? 0 : e8m0_code(e8m0_exponent(rule, a, range));
          ASSERT_EQ(decoded[i], e8m0_value(code)) << name << " amax " << a;
          ASSERT_EQ(multiplier[i], e8m0_multiplier(code)) << name << " amax " << a;
        }
      }
    }
    for (const ScaleRule rule : {ScaleRule::nearest, ScaleRule::up})
      for (const float tensor_amax : {0.0f, 1e-40f, 3.7f, 2688.0f, 3e38f})
        for (const ScaleKind kind : {ScaleKind::none, ScaleKind::fp32, ScaleKind::pow2}) {
          const ScaleRequest request{.kind = ScaleKind::e4m3,
                                     .rule = rule,
                                     .integer = false,
                                     .max = 6,
                                     .emax = 2,
                                     .mantissa_bits = 1,
                                     .two_level = two_level_scale(kind, tensor_amax, 6.0f)};
          block_scales(request, amax.data(), static_cast<int64_t>(amax.size()), decoded.data(),
                       multiplier.data());
          for (size_t i = 0; i < amax.size(); ++i) {
            const uint32_t code = e4m3_block_code(rule, float_of_bits(amax[i]), request.two_level);
            ASSERT_EQ(decoded[i], decode_float(kE4m3Grid, code)) << float_of_bits(amax[i]);
            const float want = code == 0 ? 0.0f : e4m3_multiplier(code, request.two_level);
            ASSERT_EQ(multiplier[i], want) << float_of_bits(amax[i]);
          }
        }
  });
}

TEST(QuantizeKernels, DrawsAreThoseOfTheRule) {
  const RandomKey key{.seed = 0x123456789ABCDEFull,
                      .tensor = 77,
                      .step = 3,
                      .purpose = Purpose::dgrad_grad,
                      .micro = 9};
  on_every_isa([&] {
    // The second start crosses 2^32 groups.
    for (const uint64_t first : {uint64_t{5}, (uint64_t{3} << 32) - 20})
      for (const int64_t count : {1, 7, 8, 40, 77}) {
        std::vector<uint16_t> draws(static_cast<size_t>(8 * count));
        draw_rows(key, {.group = first, .group_stride = 0, .rows = 1, .groups = count},
                  draws.data(), 0);
        for (size_t i = 0; i < draws.size(); ++i)
          ASSERT_EQ(draws[i], random_bits(key, 0, 8 * first + i, 16, 16)) << first << " " << i;
        const int64_t rows = count;
        std::vector<uint16_t> turned(static_cast<size_t>(16 * rows));
        draw_strip(key, {.group = first, .group_stride = 6, .rows = rows, .groups = 2},
                   turned.data());
        for (size_t i = 0; i < turned.size(); ++i) {
          const uint64_t col = 8 * (first + i / 16 * 6) + i % 16;
          ASSERT_EQ(turned[i], random_bits(key, 0, col, 16, 16)) << first << " " << i;
        }
      }
  });
}

TEST(QuantizeKernels, TransposeAndHadamardAndAmax) {
  std::mt19937 random(11);
  on_every_isa([&] {
    for (const int64_t rows : {1, 5, 16, 37})
      for (const int64_t cols : {1, 4, 15, 16, 50}) {
        std::vector<uint32_t> from(static_cast<size_t>(rows * (cols + 3)));
        for (uint32_t& v : from) v = static_cast<uint32_t>(random());
        std::vector<uint32_t> to(static_cast<size_t>(cols * (rows + 2)), 0xABABABABu);
        transpose_words(from.data(), cols + 3, rows, cols, to.data(), rows + 2);
        for (int64_t c = 0; c < cols; ++c)
          for (int64_t r = 0; r < rows + 2; ++r)
            ASSERT_EQ(to[static_cast<size_t>(c * (rows + 2) + r)],
                      r < rows ? from[static_cast<size_t>(r * (cols + 3) + c)] : 0xABABABABu);
      }
    std::normal_distribution<float> normal;
    const std::array<uint32_t, 4> signs = {0xD7E8A5C3u, 0x12345678u, 0x9ABCDEF0u, 0x0F1E2D3Cu};
    for (const int size : {16, 32, 64, 128}) {
      std::vector<float> x(256), want;
      for (float& v : x) v = normal(random);
      x[3] = -0.0f;
      want = x;
      hadamard_rows({x.data(), 1, 256, 256}, {x.data(), 1, 256, 256}, size, signs.data(),
                    hadamard_factor(size));
      for (int g = 0; g < 256; g += size)
        hadamard_transform(&want[static_cast<size_t>(g)], size, signs.data());
      for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(float_bits(x[i]), float_bits(want[i])) << i;
    }
  });
}

TEST(QuantizeKernels, CountMagnitudesByTheirBits) {
  const float inf = HUGE_VALF;
  const std::vector<float> x = {0,    -0.0f,  1e-45f, -1,  2, 3, -4, inf, -inf, NAN,
                                -NAN, 1e-45f, 5,      NAN, 2, 2, 2,  2,   7};
  on_every_isa([&] {
    const MagnitudeCounts counts =
        count_magnitudes(x.data(), static_cast<int64_t>(x.size()), 1.0f, 3.0f);
    EXPECT_EQ(counts.low, 3u);
    EXPECT_EQ(counts.high, 3u);
    EXPECT_EQ(counts.inf, 2u);
    EXPECT_EQ(counts.nan, 3u);
  });
}

}  // namespace
}  // namespace ng::cpu
