// Section of study noise: Proposition 3 and Table C.1, found by trying. [source 002]
#include <fmt/format.h>

#include <cmath>

#include "study/noise_formats.h"
#include "study/noise_sections.h"

namespace ng::study {
namespace {

constexpr int64_t kBlocks = 64;
constexpr int64_t kLeastBlocks = 16;
constexpr uint32_t kStream = 620;

constexpr size_t kExponentW = 0, kExponentWHat = 1, kMantissa = 2, kMantissaOfFp32 = 3;

/// Least bits of Table C.1 for one law of R.
struct Table {
  const char* name;
  const char* caption;
  NoiseValues noise;
};

Grid table_grid(const Table& table, const WeightBlocks& weights, const Settings& settings) {
  std::vector<std::string> rows;
  for (int b_t = kFewestBits; b_t <= kMostBits; ++b_t) {
    const NoisePrecision needed = precision_for_noise(b_t, table.noise.tau);
    rows.push_back(
        fmt::format("{}: {}", b_t, datatypes_for(needed.exponent_w_hat, needed.mantissa_w_hat)));
  }
  Grid grid(table.name, table.caption, "b_t: datatypes of ŵ", std::move(rows),
            {"exponent of w", "exponent of ŵ", "mantissa of ŵ", "mantissa of ŵ, w in FP32"});
  grid.expected_is = "Table C.1";
  grid.digits = 2;
  const std::vector<float> noise =
      drawn_noise(table.noise.law, noise_stream(settings.seed, kStream), std::ssize(weights.w),
                  settings.threads);
  for (size_t r = 0; r < grid.rows.size(); ++r) {
    const int b_t = kFewestBits + static_cast<int>(r);
    const NoisePrecision needed = precision_for_noise(b_t, table.noise.tau);
    const int m = needed.mantissa_w_hat;
    const auto mantissa = [&](WeightsIn in) {
      return least_mantissa(weights, noise, b_t, in, settings.threads);
    };
    const auto put = [&](size_t column, int found, int expected) {
      grid.at(r, column) = {.found = static_cast<double>(found),
                            .expected = static_cast<double>(expected)};
    };
    put(kExponentW, least_exponent_w(table.noise, b_t, m), needed.exponent_w);
    put(kExponentWHat, least_exponent_w_hat(table.noise, b_t, m), needed.exponent_w_hat);
    put(kMantissa, mantissa(WeightsIn::same_format), m);
    put(kMantissaOfFp32, mantissa(WeightsIn::fp32), m);
  }
  return grid;
}

/// Bit-widths at which so many bits fewer than the table's do.
int rows_below(const Grid& grid, size_t column) {
  int count = 0;
  for (size_t r = 0; r < grid.rows.size(); ++r)
    count += grid.at(r, column).found < grid.at(r, column).expected ? 1 : 0;
  return count;
}

int rows_above(const Grid& grid, size_t column) {
  int count = 0;
  for (size_t r = 0; r < grid.rows.size(); ++r)
    count += grid.at(r, column).found > grid.at(r, column).expected ? 1 : 0;
  return count;
}

std::string table_text(const Grid& grid) {
  return fmt::format(
      "Found: the fewest bits with which trying loses nothing. The exponent of ŵ keeps noise on "
      "the smallest and on the largest weight: {} of {} rows differ from the table. The exponent "
      "of w keeps weights above Lemma 2's bound from becoming zero: the table's suffices always, "
      "and in {} rows one bit fewer does. The mantissa keeps all noise on weights that are numbers "
      "of the same format, ties aside: {} rows differ. On weights of FP32 {} rows need one bit "
      "more (Lemma 1 counts half a step where a whole one is needed).",
      rows_below(grid, kExponentWHat) + rows_above(grid, kExponentWHat), grid.rows.size(),
      rows_below(grid, kExponentW), rows_below(grid, kMantissa) + rows_above(grid, kMantissa),
      rows_above(grid, kMantissaOfFp32));
}

}  // namespace

Section noise_precision_section(const Settings& settings, Progress& progress) {
  const WeightBlocks weights = spread_blocks(
      settings.seed, kStream, settings.part_of(kBlocks, kLeastBlocks), settings.threads);
  const Grid normal = table_grid({.name = "table_c1",
                                  .caption = "Bits that suffice for rounded normal noise",
                                  .noise = rounded_normal_values()},
                                 weights, settings);
  const Grid uniform = table_grid({.name = "table_c1_uniform",
                                   .caption = "Bits that suffice for 4-bit uniform noise",
                                   .noise = uniform4_values()},
                                  weights, settings);
  progress.step();
  return {.heading = "Formats that noise needs (Proposition 3, Table C.1)",
          .paragraphs = {table_text(normal)},
          .grids = {normal, uniform},
          .charts = {}};
}

}  // namespace ng::study
