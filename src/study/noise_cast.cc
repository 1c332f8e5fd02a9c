// Section of study noise: Lemma 1, which noise the cast of ŵ takes away. [recipes.md §1.1]
#include <fmt/format.h>

#include <cmath>

#include "study/noise_sections.h"
#include "study/noise_weights.h"

namespace ng::study {
namespace {

constexpr int64_t kBlocks = 1024;
constexpr int64_t kLeastBlocks = 16;
constexpr uint32_t kWeightStream = 512;
constexpr uint32_t kNoiseStream = 512;
constexpr int kBitRows = kMostBits - kFewestBits + 1;
constexpr int kLeastMantissa = 2, kMostMantissa = 10;

/// One set of weights, as they are and as BF16, and R for each by every law.
struct Tried {
  WeightBlocks fp32, bf16, power_of_two;
  std::vector<float> normal, uniform4, diffq;
  Threads threads;

  explicit Tried(const Settings& settings)
      : fp32(spread_blocks(settings.seed, kWeightStream, settings.part_of(kBlocks, kLeastBlocks),
                           settings.threads)),
        bf16(rounded_blocks(fp32, wide_grid(kBf16Mantissa))),
        power_of_two(rounded_blocks(with_power_of_two_maxima(fp32), wide_grid(kBf16Mantissa))),
        normal(noise(NoiseLaw::rounded_normal, settings)),
        uniform4(noise(NoiseLaw::uniform4, settings)),
        diffq(noise(NoiseLaw::diffq, settings)),
        threads(settings.threads) {}

  /// Where `is_safe`, the lemma says that nothing is lost.
  [[nodiscard]] Value lost(const WeightBlocks& w, const std::vector<float>& r, double b_t,
                           int mantissa, bool is_safe) const {
    const LostNoise found = lost_noise(w, r, b_t, wide_grid(mantissa), threads);
    return {.found = found.percent(), .error = found.error(), .expected = is_safe ? 0 : kNone};
  }

 private:
  [[nodiscard]] std::vector<float> noise(NoiseLaw law, const Settings& settings) const {
    return drawn_noise(law, noise_stream(settings.seed, kNoiseStream), std::ssize(fp32.w),
                       settings.threads);
  }
};

std::vector<std::string> bit_names() {
  std::vector<std::string> names;
  for (int b = kFewestBits; b <= kMostBits; ++b) names.push_back(fmt::format("{}", b));
  return names;
}

// ---------------------------------------------------------------- BF16

constexpr size_t kNormal = 0, kNormalBf16 = 1, kNormalTies = 2, kUniform4 = 3, kDiffq = 4;

/// What BF16 loses of the noise of U(-1/2, 1/2), percent. [recipes.md §1.1, measured]
double specified_diffq(int b_t) {
  if (b_t == 4) return 1.1;
  if (b_t == 6) return 4.2;
  return b_t == 8 ? 17 : kNone;
}

Grid lost_in_bf16(const Tried& tried) {
  Grid grid("lost_in_bf16", "Nonzero noise that the cast of ŵ to BF16 takes away, percent", "b_t",
            bit_names(),
            {"rounded normal, w in FP32", "rounded normal, w in BF16",
             "rounded normal, w in BF16, maxima 2^k", "4-bit uniform, w in FP32",
             "uniform (DiffQ), w in FP32"});
  grid.expected_is = "Lemma 1 and the specification";
  grid.digits = 3;
  for (int row = 0; row < kBitRows; ++row) {
    const int b_t = kFewestBits + row;
    const auto r = static_cast<size_t>(row);
    const bool is_safe = keeps_noise(b_t, kBf16Mantissa);
    const auto lost = [&](const WeightBlocks& w, const std::vector<float>& noise, bool safe) {
      return tried.lost(w, noise, b_t, kBf16Mantissa, safe);
    };
    grid.at(r, kNormal) = lost(tried.fp32, tried.normal, is_safe);
    grid.at(r, kNormalBf16) = lost(tried.bf16, tried.normal, is_safe);
    grid.at(r, kNormalTies) = lost(tried.power_of_two, tried.normal, is_safe);
    grid.at(r, kUniform4) =
        lost(tried.fp32, tried.uniform4, keeps_noise(b_t, kBf16Mantissa, kUniform4Tau));
    grid.at(r, kDiffq) = lost(tried.fp32, tried.diffq, false);
    grid.at(r, kDiffq).expected = specified_diffq(b_t);
  }
  return grid;
}

// ---------------------------------------------------------------- other mantissas

Grid lost_by_mantissa(const Tried& tried) {
  std::vector<std::string> columns;
  for (int m = kLeastMantissa; m <= kMostMantissa; ++m)
    columns.push_back(fmt::format("{} bits", m));
  Grid grid("lost_by_mantissa",
            "Nonzero rounded normal noise lost where ŵ has so many bits of mantissa, w in FP32, "
            "percent",
            "b_t", bit_names(), std::move(columns));
  grid.expected_is = "Lemma 1";
  grid.digits = 3;
  for (int row = 0; row < kBitRows; ++row)
    for (int m = kLeastMantissa; m <= kMostMantissa; ++m) {
      const int b_t = kFewestBits + row;
      grid.at(static_cast<size_t>(row), static_cast<size_t>(m - kLeastMantissa)) =
          tried.lost(tried.fp32, tried.normal, b_t, m, keeps_noise(b_t, m));
    }
  return grid;
}

// ---------------------------------------------------------------- near the bound

constexpr double kNearBound[] = {8, 8.25, 8.5, 8.75, 9, 9.25, 9.5, 10};
constexpr size_t kBelowBound = 3, kAtBound = 4, kOneAbove = 7;

Grid lost_near_bound(const Tried& tried) {
  std::vector<std::string> rows;
  for (const double b_t : kNearBound) rows.push_back(fmt::format("{:.2f}", b_t));
  Grid grid("lost_near_bound", "The same in BF16 near its bound b_t < 9, rounded normal, percent",
            "b_t", std::move(rows), {"w in FP32", "w in BF16", "w in BF16, maxima 2^k"});
  grid.expected_is = "Lemma 1";
  grid.digits = 3;
  for (size_t row = 0; row < grid.rows.size(); ++row) {
    const double b_t = kNearBound[row];
    const WeightBlocks* weights[] = {&tried.fp32, &tried.bf16, &tried.power_of_two};
    for (size_t c = 0; c < std::size(weights); ++c)
      grid.at(row, c) = tried.lost(*weights[c], tried.normal, b_t, kBf16Mantissa,
                                   keeps_noise(b_t, kBf16Mantissa));
  }
  return grid;
}

std::string rule_text(const Grid& bf16) {
  const auto at = [&](int b_t, size_t c) {
    return bf16.at(static_cast<size_t>(b_t - kFewestBits), c).found;
  };
  return fmt::format(
      "Noise that the cast takes away still counts in the gradient of the bit-width (Eq. 5). In "
      "BF16 uniform noise is lost at any bit-width: {:.2f} % at 4 bits, {:.1f} % at 6, {:.0f} % at "
      "8, since it may be as small as you like. In 4 bits its smallest step is 1/16: {:.2g} % is "
      "lost at 4 bits and {:.2f} % at 6. Of rounded normal noise {:.2g} % is lost at 8 bits.",
      at(4, kDiffq), at(6, kDiffq), at(8, kDiffq), at(4, kUniform4), at(6, kUniform4),
      at(8, kNormal));
}

std::string bound_text(const Grid& near) {
  return fmt::format(
      "The bound b_t < m + 2 + τ is exact for weights that are numbers of the format themselves, "
      "as noise of more than half a step then changes each: at 9 bits only ties are lost, {:.3f} % "
      "in blocks whose maximum is a power of two, at 10 bits {:.1f} %. Weights of FP32 lie between "
      "the format's numbers, and what is certain to move them is a whole step, which takes "
      "b_t <= m + 1 + τ: at 8.75 bits, below the bound, {:.2f} % is lost, at 9 bits {:.2f} %.",
      near.at(kAtBound, 2).found, near.at(kOneAbove, 1).found, near.at(kBelowBound, 0).found,
      near.at(kAtBound, 0).found);
}

}  // namespace

Section noise_cast_section(const Settings& settings, Progress& progress) {
  const Tried tried(settings);
  const Grid bf16 = lost_in_bf16(tried);
  const Grid by_mantissa = lost_by_mantissa(tried);
  const Grid near = lost_near_bound(tried);
  progress.step();
  std::vector<double> bits;
  for (int b = kFewestBits; b <= kMostBits; ++b) bits.push_back(b);
  return {.heading = "Noise that the cast takes away (Lemma 1)",
          .paragraphs = {rule_text(bf16), bound_text(near)},
          .grids = {bf16, near, by_mantissa},
          .charts = {lines_of(bf16, bits, "b_t", "lost, percent")}};
}

}  // namespace ng::study
