// Section of study noise: Lemma 1, which noise the cast of ŵ takes away. [recipes.md §1.1]
#include <cmath>

#include "study/noise_sections.h"
#include "study/noise_weights.h"

namespace ng::study {
namespace {

constexpr int64_t kBlocks = 1024;
constexpr int64_t kLeastBlocks = 16;
constexpr uint32_t kWeightStream = 512;
constexpr uint32_t kNoiseStream = 512;
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

const Names kBitNames = texts_of(integers(kFewestBits, kMostBits));

/// What BF16 loses of the noise of U(-1/2, 1/2), percent. [recipes.md §1.1, measured]
double specified_diffq(int b_t) {
  if (b_t == 4) return 1.1;
  if (b_t == 6) return 4.2;
  return b_t == 8 ? 17 : kNone;
}

Grid lost_in_bf16(const Tried& tried) {
  Grid grid("lost_in_bf16", "Nonzero noise that the cast of ŵ to BF16 takes away, percent", "b_t",
            kBitNames,
            {"rounded normal, w in FP32", "rounded normal, w in BF16",
             "rounded normal, w in BF16, maxima 2^k", "4-bit uniform, w in FP32",
             "uniform (DiffQ), w in FP32"},
            {.expected_is = "Lemma 1 and the specification", .digits = 3});
  for (size_t r = 0; r < grid.rows.size(); ++r) {
    const int b_t = kFewestBits + static_cast<int>(r);
    const auto lost = [&](const WeightBlocks& w, const std::vector<float>& noise, bool is_safe) {
      return tried.lost(w, noise, b_t, kBf16Mantissa, is_safe);
    };
    const bool is_safe = keeps_noise(b_t, kBf16Mantissa);
    grid.at(r, 0) = lost(tried.fp32, tried.normal, is_safe);
    grid.at(r, 1) = lost(tried.bf16, tried.normal, is_safe);
    grid.at(r, 2) = lost(tried.power_of_two, tried.normal, is_safe);
    grid.at(r, 3) = lost(tried.fp32, tried.uniform4, keeps_noise(b_t, kBf16Mantissa, kUniform4Tau));
    grid.at(r, 4) = lost(tried.fp32, tried.diffq, false);
    grid.at(r, 4).expected = specified_diffq(b_t);
  }
  return grid;
}

/// The same where ŵ has other mantissas.
Grid lost_by_mantissa(const Tried& tried) {
  const std::vector<int> mantissas = integers(kLeastMantissa, kMostMantissa);
  return Grid("lost_by_mantissa",
              "Nonzero rounded normal noise lost where ŵ has so many bits of mantissa, w in FP32, "
              "percent",
              "b_t", kBitNames, texts_of(mantissas, "{} bits"),
              {.expected_is = "Lemma 1", .digits = 3})
      .filled([&](size_t r, size_t c) {
        const int b_t = kFewestBits + static_cast<int>(r), m = mantissas[c];
        return tried.lost(tried.fp32, tried.normal, b_t, m, keeps_noise(b_t, m));
      });
}

Grid lost_near_bound(const Tried& tried) {
  constexpr double kNearBound[] = {8, 8.25, 8.5, 8.75, 9, 9.25, 9.5, 10};
  const WeightBlocks* weights[] = {&tried.fp32, &tried.bf16, &tried.power_of_two};
  return Grid("lost_near_bound", "The same in BF16 near its bound b_t < 9, rounded normal, percent",
              "b_t", texts_of(kNearBound, "{:.2f}"),
              {"w in FP32", "w in BF16", "w in BF16, maxima 2^k"},
              {.expected_is = "Lemma 1", .digits = 3})
      .filled([&](size_t r, size_t c) {
        const double b_t = kNearBound[r];
        return tried.lost(*weights[c], tried.normal, b_t, kBf16Mantissa,
                          keeps_noise(b_t, kBf16Mantissa));
      });
}

}  // namespace

Section noise_cast_section(const Settings& settings, Progress& progress) {
  const Tried tried(settings);
  const Grid bf16 = lost_in_bf16(tried);
  Section section =
      section_of("noise", "cast", {bf16, lost_near_bound(tried), lost_by_mantissa(tried)});
  section.charts = {lines_of(bf16, "b_t", "lost, percent")};
  progress.step();
  return section;
}

}  // namespace ng::study
