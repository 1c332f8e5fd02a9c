// Section of study noise: GaussWS beside DiffQ and NIPQ at equal bits. [recipes.md §1.1 to §1.3]
#include <algorithm>
#include <array>
#include <cmath>

#include "math/weight_noise.h"
#include "study/mean.h"
#include "study/noise_sections.h"
#include "study/noise_weights.h"
#include "study/published_rivals.h"
#include "study/samples.h"

namespace ng::study {
namespace {

constexpr int64_t kRivalBlocks = 512;
constexpr int64_t kLeastRivalBlocks = 16;
constexpr uint32_t kRivalWeightStream = 660, kNormalStream = 661, kRivalPlaceStream = 662;
constexpr uint32_t kRivalNoiseStream = 660;
constexpr int kBits[] = {3, 4, 6, 8};

/// Weights and numbers drawn for each, shared by all rivals.
struct Draws {
  WeightBlocks weights;
  std::vector<float> rounded_normal, diffq, uniform;
  std::vector<float> normal;  ///< N(0, 1)
  RandomKey places;           ///< of NIPQ's histogram

  explicit Draws(const Settings& settings)
      : weights(normal_blocks(settings.seed, kRivalWeightStream,
                              settings.part_of(kRivalBlocks, kLeastRivalBlocks), settings.threads)),
        rounded_normal(noise(NoiseLaw::rounded_normal, settings)),
        diffq(noise(NoiseLaw::diffq, settings)),
        uniform(noise(NoiseLaw::uniform16, settings)),
        normal(samples(Distribution::normal, stream(settings.seed, kNormalStream), size(),
                       settings.threads)),
        places(stream(settings.seed, kRivalPlaceStream)) {}

  [[nodiscard]] int64_t size() const { return std::ssize(weights.w); }

 private:
  [[nodiscard]] std::vector<float> noise(NoiseLaw law, const Settings& settings) const {
    return drawn_noise(law, noise_stream(settings.seed, kRivalNoiseStream), size(),
                       settings.threads);
  }
};

/// What a rival adds to each weight in training, and what its evaluation adds instead.
struct RivalErrors {
  std::vector<double> noise, rounding;
};

// ---------------------------------------------------------------- rivals

/// Noise of 2^(1 - b)·max|w| of square blocks, as if for integers of b bits in these blocks.
RivalErrors of_blocks(const Draws& draws, const std::vector<float>& r, int bits) {
  RivalErrors errors;
  for (size_t i = 0; i < draws.weights.w.size(); ++i) {
    const float amax = draws.weights.amax[i / kBlockValues];
    const double w = draws.weights.w[i];
    errors.noise.push_back(static_cast<double>(r[i]) * noise_scale(amax, static_cast<float>(bits)));
    const double step = amax / (std::ldexp(1.0, bits - 1) - 1);
    errors.rounding.push_back(step * std::nearbyint(w / step) - w);
  }
  return errors;
}

/// n is `of` times `factor`.
RivalErrors of_original_diffq(const Draws& draws, const std::vector<float>& of, double factor,
                              int bits) {
  const double logit = OriginalDiffq::logit_of(bits);
  const OriginalDiffq rival(draws.weights.w, std::span(&logit, 1), draws.size());
  std::vector<double> n(of.begin(), of.end());
  for (double& each : n) each *= factor;
  RivalErrors errors{.noise = rival.noisy(n), .rounding = rival.evaluated()};
  for (size_t i = 0; i < n.size(); ++i) {
    errors.noise[i] -= draws.weights.w[i];
    errors.rounding[i] -= draws.weights.w[i];
  }
  return errors;
}

/// α as it begins, softplus(max w); noise_at(i, histogram) is n of weight i. Clipped weights, the
/// code's rule, become ±α.
template <class NoiseAt>
RivalErrors of_nipq(const Draws& draws, int bits, const NoiseAt& noise_at) {
  const std::vector<float>& w = draws.weights.w;
  const double alpha = softplus(*std::max_element(w.begin(), w.end()));
  const double delta = alpha / (std::ldexp(1.0, bits - 1) - 1);
  const NipqHistogram histogram(w, alpha, delta);
  RivalErrors errors;
  for (size_t i = 0; i < w.size(); ++i) {
    const double x = w[i];
    errors.noise.push_back(std::fabs(x) >= alpha ? std::copysign(alpha, x) - x
                                                 : delta * noise_at(i, histogram));
    errors.rounding.push_back(nipq_evaluated(x, alpha, delta) - x);
  }
  return errors;
}

/// Noise over rounding where the error of rounding is uniform in ±step/2: √12 times the deviation
/// of n, in steps of the evaluation.
double blocks_ratio(double variance, int bits) {
  return std::sqrt(12 * variance) * (1 - std::ldexp(1.0, 1 - bits));
}

struct Rival {
  const char* name;
  RivalErrors (*errors)(const Draws& draws, int bits);
  double (*ratio)(int bits);
};
constexpr Rival kRivals[] = {
    {"GaussWS", [](const Draws& d, int bits) { return of_blocks(d, d.rounded_normal, bits); },
     [](int bits) { return blocks_ratio(4 * kPrTwo + kPrOne, bits); }},
    {"DiffQ of 002", [](const Draws& d, int bits) { return of_blocks(d, d.diffq, bits); },
     [](int bits) { return blocks_ratio(1 / 12.0, bits); }},
    {"DiffQ, gaussian",
     [](const Draws& d, int bits) { return of_original_diffq(d, d.normal, 0.5, bits); },
     [](int) { return std::sqrt(3.0); }},
    {"DiffQ, uniform",
     [](const Draws& d, int bits) { return of_original_diffq(d, d.uniform, 1, bits); },
     [](int) { return 1.0; }},
    {"NIPQ, uniform",
     [](const Draws& d, int bits) {
       return of_nipq(d, bits, [&](size_t i, const NipqHistogram&) {
         return static_cast<double>(d.uniform[i]);
       });
     },
     [](int) { return 1.0; }},
    {"NIPQ, histogram",
     [](const Draws& d, int bits) {
       return of_nipq(d, bits, [&](size_t i, const NipqHistogram& histogram) {
         const PhiloxBlock words = draw(d.places, i);
         return histogram.noise(words[0] * 0x1p-32, words[1] * 0x1p-32);
       });
     },
     [](int) { return 1.0; }}};

// ---------------------------------------------------------------- figures

/// Percent of the noise that is not zero that ŵ in BF16 does not have.
Value lost_in_bf16(std::span<const float> w, std::span<const double> noise) {
  LostNoise found;
  for (size_t i = 0; i < w.size(); ++i) {
    if (noise[i] == 0) continue;
    ++found.nonzero;
    const auto noisy = static_cast<float>(w[i] + noise[i]);
    found.lost += round_to_bf16(noisy) == round_to_bf16(w[i]) ? 1 : 0;
  }
  return {.found = found.percent(), .error = found.error()};
}

struct Comparison {
  Grid deviation, rounding, ratio, lost, distribution;
};

// Bins of noise in steps of the rounding that it stands for.
constexpr int kBinsPerStep = 8;
constexpr int kBinsPerSide = 20;
constexpr size_t kBins = 2 * kBinsPerSide + 1;
constexpr size_t kFour = 1;  ///< the bit-width whose distributions are shown

Grid distribution_grid() {
  std::vector<double> steps;
  for (const int bin : integers(-kBinsPerSide, kBinsPerSide))
    steps.push_back(static_cast<double>(bin) / kBinsPerStep);
  return {"noise_distribution",
          "Noise at 4 bits: shares by eighths of a step, √12 times the root mean square of the "
          "error of rounding",
          "steps",
          texts_of(steps),
          names_of(kRivals),
          {.shown = false}};
}

/// Shares of noise by the nearest eighth of a step; what lies farther out is in no bin.
void fill_distribution(Grid& grid, size_t column, std::span<const double> noise, double step) {
  std::array<int64_t, kBins> counts{};
  for (const double x : noise) {
    const double bin = std::nearbyint(x / step * kBinsPerStep) + kBinsPerSide;
    if (bin >= 0 && bin < static_cast<double>(kBins)) ++counts[static_cast<size_t>(bin)];
  }
  for (size_t bin = 0; bin < kBins; ++bin)
    grid.at(bin, column).found =
        static_cast<double>(counts[bin]) / static_cast<double>(noise.size());
}

Grid rival_grid(const char* name, const char* caption, GridStyle style = {}) {
  return {name, caption, "noise", names_of(kRivals), texts_of(kBits, "{} bits"), std::move(style)};
}

Comparison compared(const Draws& draws, const Settings& settings) {
  Comparison all{
      .deviation = rival_grid("noise_deviation", "Root mean square of ŵ - w, weights of N(0,1)"),
      .rounding = rival_grid("rounding_error",
                             "Root mean square of Q(w) - w, Q what each stands for: integers of so "
                             "many bits in its blocks"),
      .ratio = rival_grid("noise_over_rounding", "Noise over the error of rounding",
                          {.expected_is = "uniform errors of rounding"}),
      .lost = rival_grid("rivals_lost", "Nonzero noise that ŵ in BF16 does not have, percent",
                         {.digits = 3}),
      .distribution = distribution_grid()};
  constexpr size_t kCases = std::size(kRivals) * std::size(kBits);
  parallel_for(settings.threads, kCases, [&](int64_t item, int) {
    const size_t r = static_cast<size_t>(item) / std::size(kBits);
    const size_t c = static_cast<size_t>(item) % std::size(kBits);
    const RivalErrors errors = kRivals[r].errors(draws, kBits[c]);
    const double noise = root_mean_square(errors.noise);
    const double rounding = root_mean_square(errors.rounding);
    all.deviation.at(r, c).found = noise;
    all.rounding.at(r, c).found = rounding;
    all.ratio.at(r, c) = {.found = noise / rounding, .expected = kRivals[r].ratio(kBits[c])};
    all.lost.at(r, c) = lost_in_bf16(draws.weights.w, errors.noise);
    if (c == kFour)
      fill_distribution(all.distribution, r, errors.noise, std::sqrt(12.0) * rounding);
  });
  return all;
}

Chart distribution_chart(const Grid& grid) {
  Chart chart = lines_of(grid, "noise, steps", "share");
  chart.y_low = 0;
  chart.y_high = 0.2;
  chart.caption += "; zeros of GaussWS lie above the picture";
  return chart;
}

}  // namespace

Section noise_rivals_section(const Settings& settings, Progress& progress) {
  const Comparison all = compared(Draws(settings), settings);
  progress.step();
  Section section = section_of(
      "noise", "rivals", {all.deviation, all.rounding, all.ratio, all.lost, all.distribution});
  section.charts = {distribution_chart(all.distribution),
                    bars_of(all.ratio, "noise / error of rounding"),
                    bars_of(all.lost, "lost in BF16, percent")};
  return section;
}

}  // namespace ng::study
