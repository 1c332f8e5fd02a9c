// study noise: the theory of noise on weights, measured; bit-widths under decay alone, and how fast
// noise is made. [source 002; recipes.md §1]
#include <algorithm>

#include "base/isa.h"
#include "base/machine.h"
#include "speed/kernel_speed.h"
#include "study/noise_sections.h"

namespace ng::study {
namespace {

// ---------------------------------------------------------------- decay

Schedule linear(int64_t steps, int64_t warmup, double lr) {
  return {
      .kind = ScheduleKind::linear, .steps = steps, .warmup = warmup, .lr = lr, .min_lr = lr / 10};
}

double bits_after(double b_i, const DecayRun& run) {
  return run.b_target + b_i * (run.b_init - run.b_target);
}

Grid long_runs() {
  Grid grid("decay", "Bit-widths after the runs of Table E.1, decay 0.1 alone", "run",
            names_of(decay_runs()), {"Σ lr", "decay · Σ lr", "b_i", "b_t"});
  for (size_t r = 0; r < grid.rows.size(); ++r) {
    const DecayRun& run = decay_runs()[r];
    const DecayEnd end = decay_alone(run.schedule, run.weight_decay);
    grid.at(r, 0) = {.found = end.lr_sum, .expected = run.lr_sum};
    grid.at(r, 1).found = run.weight_decay * end.lr_sum;
    grid.at(r, 2).found = end.b_i;
    grid.at(r, 3) = {.found = bits_after(end.b_i, run), .expected = run.b_t};
  }
  return grid;
}

constexpr int64_t kShortSteps[] = {500, 2000, 5000, 20000};
constexpr double kShortRate = 1e-3;

Grid short_runs(const Grid& of_long_runs) {
  Names columns = {"Σ lr", "b_t, decay 0.1"};
  for (const DecayRun& run : decay_runs())
    columns.push_back(fmt::format("decay to end as {}", run.name));
  const DecayRun& bits = decay_runs().front();
  std::vector<DecayEnd> ends;
  for (const int64_t steps : kShortSteps)
    ends.push_back(decay_alone(linear(steps, steps / 100, kShortRate), bits.weight_decay));
  return Grid("short_runs",
              "Runs with a largest learning rate of 1e-3, linear to a tenth, a hundredth of the "
              "steps warm-up: where decay 0.1 ends, and bitwidth_weight_decay that keeps decay · "
              "Σ lr",
              "steps", texts_of(kShortSteps), std::move(columns), {.digits = 3})
      .filled([&](size_t r, size_t c) {
        if (c == 0) return ends[r].lr_sum;
        return c == 1 ? bits_after(ends[r].b_i, bits)
                      : of_long_runs.at(c - 2, 1).found / ends[r].lr_sum;
      });
}

Section decay_section(const Settings&, Progress& progress) {
  const Grid table = long_runs();
  Section section = section_of("noise", "decay", {table, short_runs(table)});
  progress.step();
  return section;
}

// ---------------------------------------------------------------- speed [source 002, Fig. 6]

constexpr int64_t kSmallest = 512, kLargest = 8192;
constexpr int kRounds = 3;

/// What is timed by speed/noise_kernels.h, and what it is called here.
struct Column {
  const char* kernel;
  const char* name;
};
constexpr Column kColumns[] = {{"noise gaussws", "gaussws"},
                               {"noise diffq", "diffq"},
                               {"noise nipq", "nipq"},
                               {"noise box-muller", "Box-Muller"},
                               {"read", "reading the weight"}};
constexpr size_t kGaussws = 0, kBoxMuller = 3, kRatio = std::size(kColumns);

std::vector<int64_t> sizes_of(const Settings& settings) {
  std::vector<int64_t> sizes;
  const int64_t most = settings.part_of(kLargest, 2 * kSmallest);  // a line takes two points
  for (int64_t size = kSmallest; size <= most; size *= 2) sizes.push_back(size);
  return sizes;
}

double elements_per_second(const std::vector<KernelSpeed>& speeds, std::string_view kernel) {
  return std::ranges::find(speeds, kernel, &KernelSpeed::name)->elements_per_second;
}

Grid speed_grid(const Settings& settings, const std::vector<int64_t>& sizes) {
  Names columns = names_of(kColumns);
  columns.emplace_back("gaussws over Box-Muller");
  Grid grid(
      "speed",
      "ŵ in BF16 of a square weight in FP32, 10^9 elements a second: maxima of blocks, draws, "
      "Eq. 3",
      "columns", texts_of(sizes), std::move(columns), {.digits = 3, .timed = true});
  for (size_t r = 0; r < sizes.size(); ++r) {
    const std::vector<KernelSpeed> speeds = kernel_speeds({.threads = settings.threads,
                                                           .rows = sizes[r],
                                                           .cols = sizes[r],
                                                           .rounds = kRounds,
                                                           .filter = "noise"});
    for (size_t c = 0; c < std::size(kColumns); ++c)
      grid.at(r, c).found = elements_per_second(speeds, kColumns[c].kernel) * 1e-9;
    grid.at(r, kRatio).found = grid.at(r, kGaussws).found / grid.at(r, kBoxMuller).found;
  }
  return grid;
}

Section speed_section(const Settings& settings, Progress& progress) {
  const Grid grid = speed_grid(settings, sizes_of(settings));
  progress.step();
  std::vector<double> ratios;
  for (size_t r = 0; r < grid.rows.size(); ++r) ratios.push_back(grid.at(r, kRatio).found);
  Section section = section_of("noise", "speed", {grid},
                               {{"cpu", cpu_model()},
                                {"isa", std::string(name_of(current_isa()))},
                                {"threads", settings.threads.count},
                                {"least", *std::ranges::min_element(ratios)},
                                {"most", *std::ranges::max_element(ratios)}});
  Chart& chart = section.charts.emplace_back(lines_of(grid, "rows and columns", "10^9 elements/s"));
  show_each_x(chart);
  chart.log_y = true;
  chart.series.pop_back();  // the ratio is no speed
  return section;
}

// ---------------------------------------------------------------- the study

/// The parts of the page; each takes one step of `progress`.
constexpr Section (*kNoiseParts[])(const Settings& settings, Progress& progress) = {
    noise_draws_section,  noise_cast_section,   noise_survival_section, noise_precision_section,
    noise_blocks_section, noise_rivals_section, decay_section,          speed_section};

Report noise(const Settings& settings) {
  Progress progress(settings, std::ssize(kNoiseParts));
  Report report{.name = "noise", .title = title_of("noise"), .sections = {}};
  for (const auto section : kNoiseParts) report.sections.push_back(section(settings, progress));
  return report;
}

}  // namespace

std::span<const DecayRun> decay_runs() {
  static const DecayRun kRuns[] = {{.name = "GPT2-124M, 6e-4",
                                    .schedule = linear(600'000, 2'000, 6e-4),
                                    .lr_sum = 198,
                                    .b_t = 4.00},
                                   {.name = "GPT2-124M, 6e-5",
                                    .schedule = linear(600'000, 2'000, 6e-5),
                                    .lr_sum = 19.8,
                                    .b_t = 4.28},
                                   {.name = "Llama2-134M",
                                    .schedule = linear(1'500'000, 5'000, 1e-5),
                                    .lr_sum = 8.2,
                                    .b_t = 4.88},
                                   {.name = "Llama2-1B",
                                    .schedule = linear(2'100'000, 7'000, 1e-5),
                                    .lr_sum = 11.5,
                                    .b_t = 4.63}};
  return kRuns;
}

DecayEnd decay_alone(const Schedule& schedule, double weight_decay) {
  DecayEnd end{.lr_sum = 0, .b_i = 1};
  for (int64_t step = 0; step < schedule.steps; ++step) {
    const double lr = learning_rate(schedule, step);
    end.lr_sum += lr;
    end.b_i *= 1 - lr * weight_decay;
  }
  return end;
}

extern const Study kNoise;
const Study kNoise{
    "noise", "noise on weights: its draws, what casts keep of it, formats it needs, rivals", noise};

}  // namespace ng::study
