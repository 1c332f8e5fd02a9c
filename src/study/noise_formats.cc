// Section of study noise: Proposition 3 and Table C.1, found by trying. [source 002]
#include "study/noise_formats.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "format/table.h"
#include "study/noise_sections.h"

namespace ng::study {
namespace {

constexpr int kMostFormatMantissa = 22;
constexpr int kMostExponent = 8;
constexpr int kMaxima = 64;  // tried for a block, evenly over [1, 2)
/// Between them: not a power of two, so that the maxima have mantissas of all bits, none of which a
/// subnormal number can leave out.
constexpr float kApart = 0.9973f / kMaxima;

/// Weights as a format has them. Maxima that are powers of two become half as large again, which
/// the format has too: noise of just half a step on them is a tie.
WeightBlocks without_ties(const WeightBlocks& of, const FloatGrid& grid) {
  const WeightBlocks on_grid = rounded_blocks(of, grid);
  std::vector<float> w = on_grid.w;
  for (size_t i = 0; i < w.size(); ++i) {
    const float amax = on_grid.amax[i / kBlockValues];
    if (std::fabs(w[i]) == amax && amax == pow2(floor_log2(amax))) w[i] *= 1.5f;
  }
  return WeightBlocks(std::move(w));
}

/// The first of first, first + 1, ... most that holds.
template <class Holds>
int least_of(int first, int most, const Holds& holds) {
  for (int bits = first; bits < most; ++bits)
    if (holds(bits)) return bits;
  return most;
}

/// holds(amax) for all the maxima of a block that are tried, those next to powers of two included.
template <class Holds>
bool holds_for_maxima(const Holds& holds) {
  for (int i = 0; i < kMaxima; ++i)
    if (!holds(1 + static_cast<float>(i) * kApart)) return false;
  return holds(std::nextafter(2.0f, 1.0f));
}

}  // namespace

NoiseValues rounded_normal_values() {
  return {.law = NoiseLaw::rounded_normal, .tau = kRoundedNormalTau, .magnitudes = {1, 2}};
}

NoiseValues uniform4_values() {
  NoiseValues noise{.law = NoiseLaw::uniform4, .tau = kUniform4Tau, .magnitudes = {}};
  for (int k = 1; k <= 8; ++k) noise.magnitudes.push_back(static_cast<float>(k) / 16);
  return noise;
}

int least_mantissa(const WeightBlocks& weights, std::span<const float> noise, int b_t, WeightsIn in,
                   Threads threads) {
  return least_of(1, kMostFormatMantissa, [&](int m) {
    const FloatGrid grid = wide_grid(m);
    if (in == WeightsIn::fp32) return lost_noise(weights, noise, b_t, grid, threads).lost == 0;
    return lost_noise(without_ties(weights, grid), noise, b_t, grid, threads).lost == 0;
  });
}

int least_exponent_w(const NoiseValues& noise, int b_t, int mantissa) {
  return least_of(2, kMostExponent, [&](int e) {
    const FloatGrid grid = float_grid(e, mantissa, 0);
    return holds_for_maxima([&](float amax) {
      const double bound = vanishes_up_to(amax, b_t, mantissa, noise.tau);
      return rounded(grid, std::nextafter(pow2(static_cast<int>(bound)), 1.0f)) != 0;
    });
  });
}

int least_exponent_w_hat(const NoiseValues& noise, int b_t, int mantissa) {
  const FloatGrid unlimited = wide_grid(mantissa);
  return least_of(2, kMostExponent, [&](int e) {
    const FloatGrid grid = float_grid(e, mantissa, 1);
    return holds_for_maxima([&](float amax) {
      const float s = noise_scale(amax, static_cast<float>(b_t));
      return std::all_of(noise.magnitudes.begin(), noise.magnitudes.end(), [&](float r) {
        return rounded(grid, r * s) == rounded(unlimited, r * s) &&
               rounded(grid, amax + r * s) == rounded(unlimited, amax + r * s);
      });
    });
  });
}

std::string datatypes_for(int exponent_bits, int mantissa_bits) {
  struct InUse {
    const char* short_name;
    const char* name;
  };
  constexpr InUse kInUse[] = {{"e2m1", "FP4_e2m1"}, {"e2m3", "FP6_e2m3"}, {"e3m2", "FP6_e3m2"},
                              {"e4m3", "FP8_e4m3"}, {"e3m4", "FP8_e3m4"}, {"e5m2", "FP8_e5m2"},
                              {"bf16", "BF16"},     {"fp16", "FP16"},     {"fp32", "FP32"}};
  std::vector<std::string> names;
  int fewest = 0;
  for (const InUse& each : kInUse) {  // by bits
    const ElementFormat& format = element_format(each.short_name);
    if (format.exponent_bits < exponent_bits || format.mantissa_bits < mantissa_bits) continue;
    if (!names.empty() && format.bits > fewest) break;
    fewest = format.bits;
    names.emplace_back(each.name);
  }
  NG_CHECK(!names.empty(), exponent_bits, mantissa_bits);
  return list_of(names);
}

namespace {

Value bits_and(int found, int expected) {
  return {.found = static_cast<double>(found), .expected = static_cast<double>(expected)};
}

// ---------------------------------------------------------------- the section

constexpr int64_t kFormatBlocks = 64;
constexpr int64_t kLeastFormatBlocks = 16;
constexpr uint32_t kFormatStream = 620;

/// Least bits of Table C.1 for one law of R.
Grid table_grid(const char* name, const char* caption, const NoiseValues& law,
                const WeightBlocks& weights, const Settings& settings) {
  const std::vector<int> bits = integers(kFewestBits, kMostBits);
  Names rows;
  for (const int b_t : bits) {
    const NoisePrecision needed = precision_for_noise(b_t, law.tau);
    rows.push_back(
        fmt::format("{}: {}", b_t, datatypes_for(needed.exponent_w_hat, needed.mantissa_w_hat)));
  }
  const std::vector<float> noise = drawn_noise(law.law, noise_stream(settings.seed, kFormatStream),
                                               std::ssize(weights.w), settings.threads);
  return Grid(name, caption, "b_t: datatypes of ŵ", std::move(rows),
              {"exponent of w", "exponent of ŵ", "mantissa of ŵ", "mantissa of ŵ, w in FP32"},
              {.expected_is = "Table C.1", .digits = 2})
      .filled([&](size_t r, size_t c) -> Value {
        const NoisePrecision needed = precision_for_noise(bits[r], law.tau);
        const int m = needed.mantissa_w_hat;
        if (c == 0) return bits_and(least_exponent_w(law, bits[r], m), needed.exponent_w);
        if (c == 1) return bits_and(least_exponent_w_hat(law, bits[r], m), needed.exponent_w_hat);
        const WeightsIn in = c == 2 ? WeightsIn::same_format : WeightsIn::fp32;
        return bits_and(least_mantissa(weights, noise, bits[r], in, settings.threads), m);
      });
}

/// Bit-widths at which so many bits fewer or more than the table's do.
int64_t rows_off(const Grid& grid, const char* column, bool fewer, bool more) {
  return std::ranges::count_if(grid.rows, [&](const std::string& row) {
    const Value& value = grid.at(row, column);
    return (fewer && value.found < value.expected) || (more && value.found > value.expected);
  });
}

}  // namespace

Section noise_precision_section(const Settings& settings, Progress& progress) {
  const WeightBlocks weights =
      spread_blocks(settings.seed, kFormatStream,
                    settings.part_of(kFormatBlocks, kLeastFormatBlocks), settings.threads);
  const Grid normal = table_grid("table_c1", "Bits that suffice for rounded normal noise",
                                 rounded_normal_values(), weights, settings);
  const Grid uniform = table_grid("table_c1_uniform", "Bits that suffice for 4-bit uniform noise",
                                  uniform4_values(), weights, settings);
  progress.step();
  return section_of("noise", "precision", {normal, uniform},
                    {{"rows", std::ssize(normal.rows)},
                     {"w_hat_differ", rows_off(normal, "exponent of ŵ", true, true)},
                     {"w_below", rows_off(normal, "exponent of w", true, false)},
                     {"mantissa_differ", rows_off(normal, "mantissa of ŵ", true, true)},
                     {"fp32_above", rows_off(normal, "mantissa of ŵ, w in FP32", false, true)}});
}

}  // namespace ng::study
