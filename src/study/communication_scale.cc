// Section of study communication: auto-scaling over a run whose gradient jumps. [errata-2, 31, 32]
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

constexpr uint32_t kScaleStream = 701;
constexpr int kScaleRanks = 8;
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
  RandomKey key = stream(seed, kScaleStream);
  key.step = static_cast<uint32_t>(step);
  std::vector<std::vector<float>> all = drawn_gradients(kind, key, kScaleRanks, kRows * kCols, {});
  for (std::vector<float>& of_rank : all)
    for (float& x : of_rank) x *= part > 0 ? kSize * kJump : kSize;
  return all;
}

/// What is seen of one step.
struct Seen {
  double k = 0, log2_mu = 0;  ///< during the step
  double encode_scale = 1;
  bool saturates = false;  ///< more than the threshold: k falls after it
  double snr = 0;
};

/// Training's loop over one tensor, one way to reduce.
class Loop {
 public:
  explicit Loop(Reduce reduce) : reduce_(reduce), wire_(cast_, kRows, kCols) {
    if (reduce == Reduce::fp32) return;
    scale_.k = static_cast<float>(std::round(-0.5 * kWindow * std::log2(kScaleRanks)));
    scale_.mu = std::exp2(scale_.k / static_cast<float>(kWindow));
  }
  void step(ValuesByRank gradients, std::span<const double> truth) {
    const SentGradients sent = wire_.send(gradients, scale_);
    const SimulatedMean mean = wire_.reduce(sent, reduce_);
    ErrorSums sums;
    sums.add(truth, mean.mean);
    seen_.push_back({.k = scale_.k,
                     .log2_mu = static_cast<double>(scale_.k) / kWindow,
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

struct ScaleWay {
  const char* name;
  Reduce reduce;
};
constexpr ScaleWay kScaleWays[] = {{"wire", Reduce::wire}, {"exact sum", Reduce::fp32}};
using ScaleLoops = std::array<std::vector<Seen>, std::size(kScaleWays)>;

ScaleLoops run_loops(const Settings& settings, Progress& progress) {
  Loop wire(kScaleWays[0].reduce), exact(kScaleWays[1].reduce);
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
Grid curves(const char* name, const char* caption, const ScaleLoops& loops, double Seen::*of) {
  return Grid(name, caption, "step", texts_of(integers(0, static_cast<int>(loops[0].size()) - 1)),
              names_of(kScaleWays), {.shown = false})
      .filled([&](size_t step, size_t way) { return loops[way][step].*of; });
}

Chart chart_of(const Grid& grid, const char* y_label) {
  Chart chart = lines_of(grid, "step", y_label);
  chart.from_zero = false;
  return chart;
}

/// By part of the run: where k lay, how often it was lowered, SNR.
Grid parts_grid(const ScaleLoops& loops) {
  const auto steps = std::ssize(loops[0]);
  Names columns;
  for (const ScaleWay& way : kScaleWays)
    for (const char* what : {"smallest k", "largest k", "times lowered", "SNR, dB"})
      columns.push_back(fmt::format("{}: {}", way.name, what));
  Grid grid("mu_parts",
            fmt::format("k = window · log2 μ, window {}, and what it does to the mean; pow2 scale",
                        kWindow),
            "gradients", {"independent", "100 times as large", "and ρ = 0.9"}, std::move(columns));
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
  const ScaleLoops loops = run_loops(settings, progress);
  const Grid parts = parts_grid(loops);
  const Grid mu = curves("mu", "log2 μ by step", loops, &Seen::log2_mu);
  const Grid scale = curves("encode_scale", "S = μ · s, what gradients are multiplied by, by step",
                            loops, &Seen::encode_scale);
  const auto steps = std::ssize(loops[0]);
  Section section = section_of("communication", "scale", {parts, mu, scale},
                               {{"ranks", kScaleRanks},
                                {"elements", kRows * kCols},
                                {"steps", steps},
                                {"third", steps / 3},
                                {"two_thirds", 2 * steps / 3},
                                {"window", kWindow}});
  section.charts = {chart_of(mu, "log2 μ"), chart_of(scale, "S")};
  section.charts[1].log_y = true;
  return section;
}

}  // namespace ng::study
