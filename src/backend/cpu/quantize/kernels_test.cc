// Each vector kernel against the scalar definition, on every instruction set.
#include "backend/cpu/quantize/kernels.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <random>
#include <vector>

#include "backend/cpu/kernel_testing.h"
#include "backend/cpu/quantize/job.h"
#include "base/sanitized_testing.h"
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
    for (uint32_t high = 0; high < 0x10000u; high += kValueStep) {
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
  EncodeTile tile{.values = {values.data(), 0}, .rows = 1, .cols = count};
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
      EncodeTile tile{.values = {values.data(), 0}, .rows = 1, .cols = 256};
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

TEST(QuantizeKernels, BlockScalesAreThoseOfTheScalarRules) {
  std::vector<uint32_t> amax = {0, 1, 0x003FFFFFu, 0x00400000u, 0x00400001u, 0x007FFFFFu};
  std::mt19937 random(7);
  for (uint32_t high = 0; high < 0x7F80u; high += kValueStep)
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
            ASSERT_EQ(decoded[i], decode_float(e4m3_grid(), code)) << float_of_bits(amax[i]);
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
    std::vector<float> mean(256);
    for (float& v : mean) v = normal(random);
    for (const int size : {16, 32, 64, 128})
      for (const bool is_centered : {false, true}) {
        std::vector<float> x(256), want;
        for (float& v : x) v = normal(random);
        x[3] = -0.0f;
        want = x;
        HadamardRule rule{.size = size, .signs = signs.data(), .factor = hadamard_factor(size)};
        if (is_centered) rule.mean = mean.data();
        const uint32_t amax = hadamard_amax({x.data(), 256}, 1, 256, rule);
        hadamard_rows({x.data(), 256}, {x.data(), 1, 256, 256}, rule);
        for (size_t i = 0; is_centered && i < want.size(); ++i) want[i] -= mean[i];
        for (int g = 0; g < 256; g += size)
          hadamard_transform(&want[static_cast<size_t>(g)], size, signs.data());
        float largest = 0;
        for (size_t i = 0; i < x.size(); ++i) {
          ASSERT_EQ(float_bits(x[i]), float_bits(want[i])) << i;
          largest = std::max(largest, std::abs(want[i]));
        }
        ASSERT_EQ(amax, float_bits(largest)) << size;
      }
  });
}

// Every pattern, NaN too, keeps its bits; nothing is written beside a row.
TEST(QuantizeKernels, Bf16IsWidenedInRowsAndTurned) {
  on_every_isa([&] {
    uint32_t pattern = 0;
    for (const int64_t rows : {1, 5, 16, 37, 100})
      for (const int64_t cols : {0, 1, 15, 16, 50, 700}) {
        std::vector<Bf16> memory(static_cast<size_t>(rows * (cols + 3) + 1));
        for (Bf16& x : memory) x.bits = static_cast<uint16_t>(pattern++);
        const Rows<const Bf16> from{memory.data() + 1, rows, cols, cols + 3};
        std::vector<float> turned(static_cast<size_t>(cols * (rows + 2)), -7.0f);
        transpose({from.data, from.stride}, rows, cols, turned.data(), rows + 2);
        const auto bits = [&](int64_t r, int64_t c) {
          return float_bits(r < rows && c < cols ? widened(from.row(r)[c]) : -7.0f);
        };
        std::vector<float> wide(static_cast<size_t>(cols + 1), -7.0f);
        widen_row(from.data, cols, wide.data());
        for (int64_t c = 0; c <= cols; ++c)
          ASSERT_EQ(float_bits(wide[static_cast<size_t>(c)]), bits(0, c));
        for (int64_t c = 0; c < cols; ++c)
          for (int64_t r = 0; r < rows + 2; ++r)
            ASSERT_EQ(float_bits(turned[static_cast<size_t>(c * (rows + 2) + r)]), bits(r, c));
      }
  });
}

TEST(QuantizeKernels, CountMagnitudesByTheirBits) {
  const float inf = HUGE_VALF;
  const std::vector<float> x = {0,    -0.0f,  1e-45f, -1,  2, 3, -4, inf, -inf, NAN,
                                -NAN, 1e-45f, 5,      NAN, 2, 2, 2,  2,   7};
  on_every_isa([&] {
    const MagnitudeCounts counts =
        count_magnitudes({x.data(), 0}, static_cast<int64_t>(x.size()), 1.0f, 3.0f);
    EXPECT_EQ(counts.low, 3u);
    EXPECT_EQ(counts.high, 3u);
    EXPECT_EQ(counts.inf, 2u);
    EXPECT_EQ(counts.nan, 3u);
  });
}

}  // namespace
}  // namespace ng::cpu
