// Sections of study communication: pre-, post- and auto-scaling beside exact sums, by ranks.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "backend/gradient_scale.h"
#include "comm/gradient_rivals.h"
#include "numbers/errors.h"
#include "study/communication_sections.h"
#include "study/mean.h"
#include "study/samples.h"
#include "study/simulated_ranks.h"

namespace ng::study {
namespace {

using Reduce = GradientRecipe::Reduce;

constexpr uint32_t kSumStream = 700;
constexpr int kSumRanks[] = {2, 4, 8, 16, 32, 64, 128};
constexpr size_t kSumRankCounts = std::size(kSumRanks);
constexpr int64_t kSumDraws = 4;
constexpr double kSumThreshold = 1e-5;  // δ [recipes.md §4.2]
constexpr int64_t kSumWindow = 4;       // quarters of an octave, until auto-scaling turns back
constexpr double kMostK = 2 * kSumWindow;

enum Way : size_t { kPre, kPost, kStart, kAuto, kExact, kGathered, kSumWays };
constexpr const char* kWayNames[] = {"pre-scaling",  "post-scaling", "wire, μ = 1/√N",
                                     "auto-scaling", "exact sum",    "exact, rounded again"};

/// Gradients and the scale that ranks share.
struct Setting {
  GradientKind gradients;
  ScaleKind scale;
  const char* name;  ///< of its tables
  const char* text;
};
constexpr GradientKind kIndependent{.name = "independent"},
    kCorrelated{.name = "correlated", .correlation = 0.9}, kWide{.name = "wide", .spread = 1.5};
constexpr Setting kSettings[] = {
    {kIndependent, ScaleKind::fp32, "independent_fp32", "independent, FP32 scale"},
    {kIndependent, ScaleKind::pow2, "independent_pow2", "independent, pow2 scale"},
    {kCorrelated, ScaleKind::fp32, "correlated_fp32", "ρ = 0.9, FP32 scale"},
    {kCorrelated, ScaleKind::pow2, "correlated_pow2", "ρ = 0.9, pow2 scale"},
    {kWide, ScaleKind::pow2, "wide_pow2", "of many sizes, pow2 scale"}};
constexpr size_t kIndependentFp32 = 0, kIndependentPow2 = 1, kCorrelatedFp32 = 2,
                 kCorrelatedPow2 = 3, kWidePow2 = 4;

// ---------------------------------------------------------------- measuring

struct Figures {
  double snr = 0;                        ///< dB
  double underflow = 0, saturation = 0;  ///< percent
};

/// One draw of one setting at one number of ranks.
struct Outcome {
  std::array<Figures, kSumWays> ways;
  double log2_mu = 0;  ///< of auto-scaling
};

class Measurement {
 public:
  Measurement(const Setting& setting, ValuesByRank gradients)
      : cast_(shared_e4m3(setting.scale)),
        gradients_(gradients),
        truth_(exact_mean(gradients)),
        wire_(cast_, kGradientRows, kGradientCols) {}

  Outcome run() {
    Outcome outcome;
    outcome.ways[kPre] = of_rival(pre_scaled_mean(cast_, gradients_));
    outcome.ways[kPost] = of_rival(post_scaled_mean(cast_, gradients_));
    follow_mu(outcome);
    SimulatedMean exact = wire_.reduce(wire_.send(gradients_), Reduce::fp32);
    outcome.ways[kExact] = figures(exact);
    exact.mean = wire_.gathered(exact.mean);
    outcome.ways[kGathered] = figures(exact);
    outcome.ways[kGathered].saturation = kNone;  // its codes are not those that were sent
    return outcome;
  }

 private:
  [[nodiscard]] Figures figures(const SimulatedMean& of) const {
    ErrorSums sums;
    sums.add(truth_, of.mean);
    const ErrorMetrics metrics = sums.metrics();
    return {metrics.sqnr_db, 100 * metrics.underflow, 100 * of.saturated()};
  }
  [[nodiscard]] Figures of_rival(const RingMean& ring) const {
    return figures({.mean = ring.mean,
                    .largest = static_cast<int64_t>(count_largest(*cast_.element, ring.sum)),
                    .codes = std::ssize(ring.sum)});
  }
  /// Auto-scaling from 1/√N on, the gradient the same in every step, until it turns back.
  void follow_mu(Outcome& outcome) {
    const double log2_ranks = std::log2(static_cast<double>(gradients_.size()));
    AutoScale scale{.k = static_cast<float>(std::round(-0.5 * kSumWindow * log2_ranks))};
    scale.mu = std::exp2(scale.k / static_cast<float>(kSumWindow));
    for (bool has_fitted = false, is_first = true; scale.k <= kMostK; is_first = false) {
      const SimulatedMean mean = wire_.reduce(wire_.send(gradients_, scale), Reduce::wire);
      const bool fits = mean.saturated() <= kSumThreshold;
      if (is_first) outcome.ways[kStart] = figures(mean);
      if (!fits && has_fitted) return;
      has_fitted |= fits;
      outcome.ways[kAuto] = figures(mean);
      outcome.log2_mu = std::log2(scale.mu);
      move_auto_scale(
          {.scale = &scale, .codes = {}, .threshold = kSumThreshold, .window = kSumWindow},
          mean.largest, mean.codes);
    }
  }

  Operand cast_;
  ValuesByRank gradients_;
  std::vector<double> truth_;
  SimulatedWire wire_;
};

/// By setting, number of ranks and draw.
using Outcomes = std::array<std::array<std::vector<Outcome>, kSumRankCounts>, std::size(kSettings)>;

int64_t draws_of_sums(const Settings& settings) { return settings.part_of(kSumDraws, 2); }

Outcomes measured_sums(const Settings& settings, Progress& progress) {
  Outcomes all;
  for (auto& of_setting : all)
    for (std::vector<Outcome>& draws : of_setting)
      draws.resize(static_cast<size_t>(draws_of_sums(settings)));
  for (size_t s = 0; s < std::size(kSettings); ++s)
    for (size_t draw = 0; draw < all[s][0].size(); ++draw) {
      RandomKey key = stream(settings.seed, kSumStream);
      key.step = static_cast<uint32_t>(draw);
      const std::vector<std::vector<float>> gradients =
          drawn_gradients(kSettings[s].gradients, key, kSumRanks[kSumRankCounts - 1],
                          kGradientRows * kGradientCols, settings.threads);
      parallel_for(settings.threads, kSumRankCounts, [&](int64_t item, int) {
        const size_t r = kSumRankCounts - 1 - static_cast<size_t>(item);  // most work first
        const ValuesByRank some(gradients.data(), static_cast<size_t>(kSumRanks[r]));
        all[s][r][draw] = Measurement(kSettings[s], some).run();
      });
      progress.step();
    }
  return all;
}

// ---------------------------------------------------------------- tables

struct Measure {
  const char* name;
  const char* caption;
  double Figures::*of;
  std::initializer_list<size_t> shown;  ///< settings on the page; the files have all
};
constexpr auto kSnrShown = {kIndependentFp32, kIndependentPow2, kCorrelatedFp32, kCorrelatedPow2},
               kUnderflowShown = {kIndependentPow2, kWidePow2},
               kSaturationShown = {kIndependentFp32, kCorrelatedFp32};
constexpr Measure kSnr{"snr", "SNR of the mean, dB", &Figures::snr, kSnrShown},
    kUnderflow{"underflow", "Elements whose mean becomes 0, percent", &Figures::underflow,
               kUnderflowShown},
    kSaturation{"saturation", "Codes that are ±448, percent", &Figures::saturation,
                kSaturationShown};

template <class Of>
Mean mean_of(const std::vector<Outcome>& draws, const Of& of) {
  Mean mean;
  for (const Outcome& outcome : draws) mean.add(of(outcome));
  return mean;
}

Grid grid_of(const Outcomes& all, size_t setting, const Measure& measure) {
  return Grid(fmt::format("{}_{}", measure.name, kSettings[setting].name),
              fmt::format("{}; gradients {}", measure.caption, kSettings[setting].text), "ranks",
              texts_of(kSumRanks), {std::begin(kWayNames), std::end(kWayNames)},
              {.digits = 3, .shown = std::ranges::count(measure.shown, setting) > 0})
      .filled([&](size_t r, size_t way) {
        return mean_of(all[setting][r],
                       [&](const Outcome& outcome) { return outcome.ways[way].*measure.of; })
            .value();
      });
}

size_t row_of(int ranks) {
  return static_cast<size_t>(std::ranges::find(kSumRanks, ranks) - kSumRanks);
}

/// The specification's, of one draw each. Of the exact sum it has a range, 31.5 to 31.9.
/// [errata-2, 34]
struct Specified {
  size_t setting;
  int ranks;
  Way way;
  double snr;
};
constexpr Specified kSpecifiedSums[] = {
    {kIndependentFp32, 2, kPost, 27.3},   {kIndependentFp32, 8, kPost, 12.9},
    {kIndependentFp32, 32, kPost, 3.7},   {kIndependentFp32, 128, kPost, 1.2},
    {kIndependentFp32, 2, kAuto, 28.1},   {kIndependentFp32, 8, kAuto, 23.9},
    {kIndependentFp32, 32, kAuto, 19.0},  {kIndependentFp32, 128, kAuto, 13.3},
    {kIndependentFp32, 2, kExact, 31.7},  {kIndependentFp32, 8, kExact, 31.7},
    {kIndependentFp32, 32, kExact, 31.7}, {kIndependentFp32, 128, kExact, 31.7},
    {kIndependentPow2, 2, kPost, 28.2},   {kIndependentPow2, 8, kPost, 22.1},
    {kIndependentPow2, 32, kPost, 8.3},   {kIndependentPow2, 128, kPost, 2.3},
    {kCorrelatedFp32, 128, kPost, 0.3},   {kCorrelatedFp32, 128, kAuto, 2.6},
    {kCorrelatedFp32, 128, kExact, 51.6}};

std::vector<Grid> grids_of(const Outcomes& all, const Measure& measure) {
  std::vector<Grid> grids;
  for (size_t s = 0; s < std::size(kSettings); ++s) grids.push_back(grid_of(all, s, measure));
  if (&measure == &kSnr)
    for (const Specified& one : kSpecifiedSums)
      grids[one.setting].at(row_of(one.ranks), one.way).expected = one.snr;
  return grids;
}

/// log2 μ of auto-scaling, beside what MS-AMP begins with and what no sum can exceed.
Grid mu_grid(const Outcomes& all) {
  constexpr size_t kSettingCount = std::size(kSettings);
  Names columns;
  for (const Setting& setting : kSettings) columns.emplace_back(setting.text);
  columns.insert(columns.end(), {"1/√N", "1/N"});
  return Grid("log2_mu",
              "log2 of the μ at which auto-scaling turns back, the gradient the same in every step",
              "ranks", texts_of(kSumRanks), std::move(columns), {.digits = 3})
      .filled([&](size_t r, size_t c) {
        if (c < kSettingCount) return mean_of(all[c][r], std::mem_fn(&Outcome::log2_mu)).mean();
        return (c == kSettingCount ? -0.5 : -1) * std::log2(kSumRanks[r]);
      });
}

// ---------------------------------------------------------------- pictures and text

Chart panel_of(const Grid& grid, const char* caption, const char* y_label) {
  Chart chart = lines_of(grid, "ranks", y_label);
  chart.caption = caption;
  show_each_x(chart);
  hide_expected(chart);  // the tables have the specification's figures
  return chart;
}

Panels panels_of(const std::vector<Grid>& grids, const Measure& measure, const char* y_label) {
  Panels panels{.caption = fmt::format("{}, by ranks", measure.caption), .charts = {}};
  for (const size_t s : measure.shown)
    panels.charts.push_back(panel_of(grids[s], kSettings[s].text, y_label));
  return panels;
}

Section snr_section(const Outcomes& all) {
  std::vector<Grid> grids = grids_of(all, kSnr);
  const Panels panels = panels_of(grids, kSnr, "dB");
  const auto draws = static_cast<double>(all[0][0].size());
  const double error = grids[kIndependentFp32].at("8", kWayNames[kPost]).error;
  grids.push_back(mu_grid(all));
  Section section = section_of("communication", "snr", std::move(grids),
                               {{"draws", draws}, {"deviation", error * std::sqrt(draws)}});
  section.panels = {panels};
  return section;
}

Section loss_section(const Outcomes& all) {
  std::vector<Grid> underflow = grids_of(all, kUnderflow);
  const std::vector<Grid> saturation = grids_of(all, kSaturation);
  const std::vector<Panels> panels = {panels_of(underflow, kUnderflow, "percent"),
                                      panels_of(saturation, kSaturation, "percent")};
  underflow.insert(underflow.end(), saturation.begin(), saturation.end());
  Section section = section_of("communication", "loss", std::move(underflow));
  section.panels = panels;
  return section;
}

}  // namespace

int64_t communication_sum_steps(const Settings& settings) {
  return static_cast<int64_t>(std::size(kSettings)) * draws_of_sums(settings);
}

std::vector<Section> communication_sum_sections(const Settings& settings, Progress& progress) {
  const Outcomes all = measured_sums(settings, progress);
  return {snr_section(all), loss_section(all)};
}

}  // namespace ng::study
