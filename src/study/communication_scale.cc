// Section of study communication: auto-scaling over a run whose gradient jumps. [errata-2, 31, 32]
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "backend/gradient_scale.h"
#include "numbers/errors.h"
#include "study/communication_sections.h"
#include "study/mean.h"
#include "study/samples.h"
#include "study/simulated_ranks.h"

namespace ng::study {
namespace {

using Reduce = GradientRecipe::Reduce;

constexpr uint32_t kStream = 701;
constexpr int kRanks = 8;
constexpr int64_t kRows = 16, kCols = 32;
constexpr int64_t kSteps = 1200;
constexpr int64_t kWindow =
    100;  // a tenth of the recipe's: as many teeth as 12,000 steps would have
constexpr double kThreshold = 1e-5;
// Largest magnitudes of nearly all steps lie between the same two of 3.5·2^i, where E4M3's power of
// two changes, and so do those 100 times as large: what is seen to move is μ.
constexpr float kSize = 0.75f, kJump = 100;
constexpr double kCorrelation = 0.9;
constexpr size_t kParts = 3;

int64_t steps_of(const Settings& settings) { return settings.part_of(kSteps, 30); }
size_t part_of(int64_t step, int64_t steps) {
  return static_cast<size_t>(step * static_cast<int64_t>(kParts) / steps);
}

/// Gradients of a step: independent, from a third on 100 times as large, from two thirds on also
/// alike.
std::vector<std::vector<float>> gradients_of(uint64_t seed, int64_t step, int64_t steps) {
  const size_t part = part_of(step, steps);
  const GradientKind kind{.name = "", .correlation = part == 2 ? kCorrelation : 0};
  RandomKey key = stream(seed, kStream);
  key.step = static_cast<uint32_t>(step);
  std::vector<std::vector<float>> all = drawn_gradients(kind, key, kRanks, kRows * kCols, {});
  for (std::vector<float>& of_rank : all)
    for (float& x : of_rank) x *= part > 0 ? kSize * kJump : kSize;
  return all;
}

/// What is seen of one step.
struct Seen {
  double k = 0;  ///< during the step
  double encode_scale = 1;
  bool saturates = false;  ///< more than the threshold: k falls after it
  double snr = 0;
};

/// Training's loop over one tensor, one way to reduce.
class Loop {
 public:
  explicit Loop(Reduce reduce) : reduce_(reduce), wire_(cast_, kRows, kCols) {
    if (reduce == Reduce::fp32) return;
    scale_.k = static_cast<float>(std::round(-0.5 * kWindow * std::log2(kRanks)));
    scale_.mu = std::exp2(scale_.k / static_cast<float>(kWindow));
  }
  void step(ValuesByRank gradients, std::span<const double> truth) {
    const SentGradients sent = wire_.send(gradients, scale_);
    const SimulatedMean mean = wire_.reduce(sent, reduce_);
    ErrorSums sums;
    sums.add(truth, mean.mean);
    seen_.push_back({.k = scale_.k,
                     .encode_scale = sent.encode_scale,
                     .saturates = mean.saturated() > kThreshold,
                     .snr = sums.metrics().sqnr_db});
    move_auto_scale({.scale = &scale_, .codes = {}, .threshold = kThreshold, .window = kWindow},
                    mean.largest, mean.codes);
  }
  [[nodiscard]] const std::vector<Seen>& seen() const { return seen_; }

 private:
  Operand cast_ = shared_e4m3(ScaleKind::pow2);
  Reduce reduce_;
  SimulatedWire wire_;
  AutoScale scale_;
  std::vector<Seen> seen_;
};

struct Way {
  const char* name;
  Reduce reduce;
};
constexpr Way kWays[] = {{"wire", Reduce::wire}, {"exact sum", Reduce::fp32}};
using Loops = std::array<std::vector<Seen>, std::size(kWays)>;

Loops run_loops(const Settings& settings, Progress& progress) {
  Loop wire(kWays[0].reduce), exact(kWays[1].reduce);
  const int64_t steps = steps_of(settings);
  for (int64_t step = 0; step < steps; ++step) {
    const std::vector<std::vector<float>> gradients = gradients_of(settings.seed, step, steps);
    const std::vector<double> truth = exact_mean(gradients);
    wire.step(gradients, truth);
    exact.step(gradients, truth);
    progress.step();
  }
  return {wire.seen(), exact.seen()};
}

// ---------------------------------------------------------------- what is shown

/// A curve of both ways: a number of each step.
template <class Of>
Grid curves(const char* name, const char* caption, const Loops& loops, const Of& of) {
  std::vector<std::string> rows, columns;
  for (size_t step = 0; step < loops[0].size(); ++step) rows.push_back(fmt::format("{}", step));
  for (const Way& way : kWays) columns.emplace_back(way.name);
  Grid grid(name, caption, "step", std::move(rows), std::move(columns));
  grid.shown = false;
  for (size_t way = 0; way < loops.size(); ++way)
    for (size_t step = 0; step < loops[way].size(); ++step)
      grid.at(step, way).found = of(loops[way][step]);
  return grid;
}

Chart chart_of(const Grid& grid, const char* y_label) {
  std::vector<double> steps;
  for (size_t step = 0; step < grid.rows.size(); ++step) steps.push_back(static_cast<double>(step));
  Chart chart = lines_of(grid, std::move(steps), "step", y_label);
  chart.from_zero = false;
  return chart;
}

/// By part of the run: where k lay, how often it was lowered, SNR.
Grid parts_grid(const Loops& loops) {
  const auto steps = std::ssize(loops[0]);
  Grid grid("mu_parts",
            fmt::format("k = window · log2 μ, window {}, and what it does to the mean; pow2 scale",
                        kWindow),
            "gradients", {"independent", "100 times as large", "and ρ = 0.9"}, {});
  for (const Way& way : kWays)
    for (const char* what : {"smallest k", "largest k", "times lowered", "SNR, dB"})
      grid.columns.push_back(fmt::format("{}: {}", way.name, what));
  grid.values.resize(grid.rows.size() * grid.columns.size());
  for (size_t way = 0; way < loops.size(); ++way)
    for (size_t part = 0; part < kParts; ++part) {
      double low = HUGE_VAL, high = -HUGE_VAL, lowered = 0;
      Mean snr;
      for (int64_t step = 0; step < steps; ++step) {
        if (part_of(step, steps) != part) continue;
        const Seen& seen = loops[way][static_cast<size_t>(step)];
        low = std::min(low, seen.k);
        high = std::max(high, seen.k);
        lowered += seen.saturates ? 1 : 0;
        snr.add(seen.snr);
      }
      const double numbers[] = {low, high, lowered, snr.mean()};
      for (size_t i = 0; i < std::size(numbers); ++i)
        grid.at(part, way * std::size(numbers) + i).found = numbers[i];
    }
  return grid;
}

}  // namespace

int64_t communication_scale_steps(const Settings& settings) { return steps_of(settings); }

Section communication_scale_section(const Settings& settings, Progress& progress) {
  const Loops loops = run_loops(settings, progress);
  const Grid parts = parts_grid(loops);
  const Grid mu =
      curves("mu", "log2 μ by step", loops, [](const Seen& seen) { return seen.k / kWindow; });
  const Grid scale = curves("encode_scale", "S = μ · s, what gradients are multiplied by, by step",
                            loops, [](const Seen& seen) { return seen.encode_scale; });
  Chart scales = chart_of(scale, "S");
  scales.log_y = true;
  const auto at = [&](size_t part, const char* column) {
    return parts.found(parts.rows[part], column);
  };
  return {
      .heading = "μ over a run whose gradient jumps",
      .paragraphs =
          {fmt::format(
               "{} ranks, {} elements, {} steps; the gradient is 100 times as large from step {} "
               "on, and from step {} on it is nearly the same on all ranks. k falls by the window, "
               "{} here and 1,000 in recipes, after a step in which more than 1e-5 of the codes "
               "saturate, and else grows by 1: a saw whose every tooth costs one step with "
               "saturated values.",
               kRanks, kRows * kCols, loops[0].size(), loops[0].size() / 3, 2 * loops[0].size() / 3,
               kWindow),
           fmt::format(
               "The jump leaves next to no trace in μ, since s follows the largest magnitude of "
               "the step itself. s is a power of two, though: it falls by 128 where gradients grow "
               "by 100, and μ settles where that is made good, log2 of it 0.36 higher: k of the "
               "wire stays within {:.0f} and {:.0f} before the jump, within {:.0f} and {:.0f} "
               "after it. What μ does answer is how alike ranks are: their sum grows as N instead "
               "of √N, and k falls to {:.0f}.",
               at(0, "wire: smallest k"), at(0, "wire: largest k"), at(1, "wire: smallest k"),
               at(1, "wire: largest k"), at(2, "wire: smallest k")),
           fmt::format(
               "Where sums are exact μ watches the codes of each rank alone: it climbs until their "
               "largest values saturate, and halves. Nothing asks for that: {:.1f} dB, as much as "
               "μ = 1 has above.",
               at(1, "exact sum: SNR, dB"))},
      .grids = {parts, mu, scale},
      .charts = {chart_of(mu, "log2 μ"), scales}};
}

}  // namespace ng::study
