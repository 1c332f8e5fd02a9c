// Section of study noise: bit-widths under decay alone.
#include "study/noise_decay.h"

#include <fmt/format.h>

#include "study/noise_sections.h"

namespace ng::study {
namespace {

Schedule linear(int64_t steps, int64_t warmup, double lr) {
  return {
      .kind = ScheduleKind::linear, .steps = steps, .warmup = warmup, .lr = lr, .min_lr = lr / 10};
}

double bits_after(double b_i, const DecayRun& run) {
  return run.b_target + b_i * (run.b_init - run.b_target);
}

// ---------------------------------------------------------------- Table E.1

Grid long_runs() {
  std::vector<std::string> rows;
  for (const DecayRun& run : decay_runs()) rows.emplace_back(run.name);
  Grid grid("decay", "Bit-widths after the runs of Table E.1, decay 0.1 alone", "run",
            std::move(rows), {"Σ lr", "decay · Σ lr", "b_i", "b_t"});
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

// ---------------------------------------------------------------- short runs

constexpr int64_t kShortSteps[] = {500, 2000, 5000, 20000};
constexpr double kShortRate = 1e-3;

Grid short_runs(const Grid& of_long_runs) {
  std::vector<std::string> rows, columns = {"Σ lr", "b_t, decay 0.1"};
  for (const int64_t steps : kShortSteps) rows.push_back(fmt::format("{}", steps));
  for (const DecayRun& run : decay_runs())
    columns.push_back(fmt::format("decay to end as {}", run.name));
  Grid grid(
      "short_runs",
      "Runs with a largest learning rate of 1e-3, linear to a tenth, a hundredth of the "
      "steps warm-up: where decay 0.1 ends, and bitwidth_weight_decay that keeps decay · Σ lr",
      "steps", std::move(rows), std::move(columns));
  grid.digits = 3;
  const DecayRun& bits = decay_runs().front();
  for (size_t r = 0; r < grid.rows.size(); ++r) {
    const int64_t steps = kShortSteps[r];
    const DecayEnd end = decay_alone(linear(steps, steps / 100, kShortRate), bits.weight_decay);
    grid.at(r, 0).found = end.lr_sum;
    grid.at(r, 1).found = bits_after(end.b_i, bits);
    for (size_t run = 0; run < decay_runs().size(); ++run)
      grid.at(r, 2 + run).found = of_long_runs.at(run, 1).found / end.lr_sum;
  }
  return grid;
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

Section noise_decay_section(const Settings&, Progress& progress) {
  const Grid table = long_runs();
  const Grid brief = short_runs(table);
  progress.step();
  const size_t five_thousand = 2;
  return {.heading = "Decay of bit-widths, and short runs",
          .paragraphs = {fmt::format(
              "Decay alone leaves b_i = Π(1 - lr·decay) ≈ exp(-decay·Σ lr). The runs of Table E.1 "
              "end at {:.2f}, {:.2f}, {:.2f} and {:.2f} bits. {} steps at 1e-3 have Σ lr = {:.2f} "
              "and end at {:.2f} bits: nothing is learned about the target. What counts is "
              "decay · Σ lr, so bitwidth_weight_decay = {:.2f}/Σ lr ends as Llama2-134M does, "
              "{:.2f}/Σ lr as GPT2 at 6e-5; for that run {:.2f} and {:.2f}.",
              table.at(0, 3).found, table.at(1, 3).found, table.at(2, 3).found,
              table.at(3, 3).found, kShortSteps[five_thousand], brief.at(five_thousand, 0).found,
              brief.at(five_thousand, 1).found, table.at(2, 1).found, table.at(1, 1).found,
              brief.at(five_thousand, 4).found, brief.at(five_thousand, 3).found)},
          .grids = {table, brief},
          .charts = {}};
}

}  // namespace ng::study
