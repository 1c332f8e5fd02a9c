// Study stability: its ladder on runs that are made up, and the whole study at a tenth of its
// length.
#include <gtest/gtest.h>

#include <cmath>

#include "base/files.h"
#include "study/stability_runs.h"
#include "support/session_runs.h"

namespace ng::study {
namespace {

constexpr int64_t kSteps = 10, kWarmup = 2;

StabilityTask task_of_ten_steps() {
  StabilityTask task;
  task.schedule.steps = kSteps;
  task.schedule.warmup = kWarmup;
  return task;
}

std::vector<double> falling_to(double end) {
  std::vector<double> losses(kSteps, end);
  losses.front() = 3;
  return losses;
}

RateRuns runs_of(std::vector<double> losses, int64_t skipped = 0) {
  RateRuns runs;
  runs.add(task_of_ten_steps(),
           {.losses = std::move(losses), .norms = {1, 2, 6}, .logits = {1, 4}, .skipped = skipped});
  return runs;
}

Ladder ladder_to(const std::vector<double>& ends) {
  Ladder ladder;
  for (const double end : ends) ladder.push_back(runs_of(falling_to(end)));
  return ladder;
}

TEST(LargestStableRate, EndsNearTheBest) {
  Ladder ladder = ladder_to({2.5, 2.0, 2.0625, 2.25});
  EXPECT_EQ(best_rate(ladder), 1);
  EXPECT_EQ(largest_stable_rate(ladder), 2);
  ladder[2] = runs_of(falling_to(2.125));
  EXPECT_EQ(largest_stable_rate(ladder), 1);
}

TEST(LargestStableRate, SkipsNoStep) {
  Ladder ladder = ladder_to({2.5, 2.0, 2.0625});
  ladder[2] = runs_of(falling_to(2.0625), 1);
  EXPECT_EQ(largest_stable_rate(ladder), 1);
}

TEST(LargestStableRate, MayExceedTheStartInTheWarmUpOnly) {
  std::vector<double> losses = falling_to(2);
  losses[kWarmup - 1] = 4;
  Ladder ladder = ladder_to({2.5, 2.0});
  ladder.push_back(runs_of(losses));
  EXPECT_EQ(largest_stable_rate(ladder), 2);
  losses[kWarmup] = 4;
  ladder[2] = runs_of(losses);
  EXPECT_EQ(largest_stable_rate(ladder), 1);
}

TEST(LargestStableRate, IsStableWithEverySeed) {
  Ladder ladder = ladder_to({2.0, 2.0});
  std::vector<double> losses = falling_to(2);
  losses[5] = 3.5;
  ladder[1].add(task_of_ten_steps(), {.losses = losses, .norms = {}, .logits = {}, .skipped = 0});
  EXPECT_EQ(ladder[1].loss.mean(), 2);
  EXPECT_EQ(largest_stable_rate(ladder), 0);
}

TEST(LargestStableRate, IsNoneWhereNoRunReachesItsEnd) {
  Ladder ladder = ladder_to({2, 2});
  for (RateRuns& runs : ladder) runs = runs_of({3, 2, 2}, kMostSkips);
  EXPECT_EQ(best_rate(ladder), -1);
  EXPECT_EQ(largest_stable_rate(ladder), -1);
  EXPECT_TRUE(std::isnan(rate_sensitivity(ladder)));
}

// What ends above the first loss, 3, or early counts as 3.
TEST(RateSensitivity, IsTheMeanDistanceFromTheBest) {
  Ladder ladder = ladder_to({2.5, 2.0, 7.0});
  EXPECT_EQ(rate_sensitivity(ladder), 0.5);
  ladder.push_back(runs_of({3, 2, 2}, kMostSkips));
  EXPECT_EQ(rate_sensitivity(ladder), 0.625);
}

TEST(RateRuns, CountOverSeeds) {
  RateRuns runs = runs_of(falling_to(2), 1);
  runs.add(task_of_ten_steps(),
           {.losses = falling_to(1), .norms = {2, 2, 3}, .logits = {9, 3}, .skipped = 2});
  EXPECT_EQ(runs.loss.mean(), 1.5);
  EXPECT_EQ(runs.start.mean(), 3);
  EXPECT_EQ(runs.gradient, 3);
  EXPECT_EQ(runs.logit, 9);
  EXPECT_EQ(runs.skipped, 3);
  EXPECT_EQ(runs.first.losses, falling_to(2));
  runs.add(task_of_ten_steps(), {.losses = {3}, .norms = {}, .logits = {kNone}, .skipped = 1});
  EXPECT_TRUE(std::isnan(runs.loss.mean()));
  EXPECT_TRUE(std::isnan(runs.logit));
}

// Token 0 in every other place, 1 and 2 in a quarter of them each: 1.5 bits; what is masked counts
// for nothing.
TEST(StabilityTask, HasTheEntropyOfItsTokens) {
  StabilityTask task = task_of_ten_steps();
  task.model.vocab = 5;
  task.settings.length = 8;
  task.fill = [](int64_t, int64_t, const BatchSpans& to) {
    for (size_t i = 0; i < to.targets.size(); ++i)
      to.targets[i] = i % 2 == 0 ? 0 : static_cast<int32_t>(i % 4 + 1) / 2;
  };
  EXPECT_NEAR(token_entropy(task), 1.5 * std::log(2.0), 1e-12);
  task.settings.masked = true;
  task.fill = [](int64_t, int64_t, const BatchSpans& to) {
    for (size_t i = 0; i < to.targets.size(); ++i) {
      to.targets[i] = static_cast<int32_t>(i % 2);
      to.mask[i] = i % 2 == 0 ? 1 : 0;
    }
  };
  EXPECT_NEAR(token_entropy(task), 0, 1e-12);
}

TEST(StabilityTask, IsWatchedAtBothEndsAndInBetween) {
  StabilityTask task;
  for (const int64_t steps : {1, 2, 19, 20, 21, 200, 201, 219}) {
    task.schedule.steps = steps;
    const std::vector<int64_t> watched = task.watched_steps();
    EXPECT_EQ(watched.front(), 0);
    EXPECT_EQ(watched.back(), steps - 1);
    EXPECT_LE(std::ssize(watched), kLooksAtLogits + 1) << steps;
  }
  task.schedule.steps = 200;
  EXPECT_EQ(std::ssize(task.watched_steps()), kLooksAtLogits + 1);
}

const Grid& stability_grid_of(const Report& report, std::string_view name) {
  for (const Section& section : report.sections)
    for (const Grid& grid : section.grids)
      if (grid.name == name) return grid;
  throw std::runtime_error("no such grid");
}

Settings short_study(std::vector<std::string> recipes) {
  return {.seed = 1,
          .share = 0.1,
          .threads = {2},
          .run = {.folder = "", .steps = {}, .recipes = std::move(recipes), .draws = 1}};
}

// 20 steps: at 2^-8 both models learn, at 2^-1 they are lost.
TEST(Stability, TellsASaneRateFromOneThatIsTooLarge) {
  Settings settings = short_study({"bf16"});
  int64_t last = 0;
  settings.progress = [&](int64_t done, int64_t total) {
    EXPECT_EQ(done, ++last);
    EXPECT_EQ(total, 2 * std::ssize(peak_rates()));
  };
  const Stability found = stability_runs(settings);
  EXPECT_EQ(last, 2 * std::ssize(peak_rates()));
  ASSERT_EQ(found.tables.size(), 2u);
  EXPECT_EQ(found.tables[0].task.model.architecture, Architecture::llama);
  EXPECT_EQ(found.tables[1].task.model.architecture, Architecture::gpt2);
  for (const StabilityTable& table : found.tables) {
    const Ladder& ladder = table.ladders.front();
    const RateRuns& sane = ladder[2];
    EXPECT_EQ(sane.skipped, 0);
    EXPECT_FALSE(sane.exceeds);
    EXPECT_NEAR(sane.start.mean(), std::log(32.0), 0.1);
    EXPECT_LT(sane.loss.mean(), sane.start.mean() - 0.1);
    EXPECT_EQ(sane.first.losses.size(), 20u);
    EXPECT_EQ(sane.first.logits.size(), table.task.watched_steps().size());
    EXPECT_GT(sane.logit, 0);
    EXPECT_GE(sane.gradient, 1);
    EXPECT_GE(largest_stable_rate(ladder), 0);
    EXPECT_LT(largest_stable_rate(ladder), std::ssize(ladder) - 1);
    // All runs begin alike, and a larger rate makes larger queries and keys.
    EXPECT_EQ(ladder.back().first.logits.front(), sane.first.logits.front());
    EXPECT_GT(ladder.back().logit, sane.logit);
  }
}

class StabilityOfARun : public SessionRuns {
 protected:
  void SetUp() override {
    SessionRuns::SetUp();
    write_file_atomically(in("run.toml"), fmt::format("data.train = '{}'\n", in("text.txt")) +
                                              std::string(kSmallRun));
  }
  [[nodiscard]] Settings settings(std::vector<std::string> recipes, int threads = 1) const {
    return {.seed = 1,
            .threads = {threads},
            .run = {.folder = folder_, .steps = {}, .recipes = std::move(recipes), .draws = 1}};
  }
  static Report report(const Settings& settings) { return study_of("stability").run(settings); }
  static std::string refusal_of(const Settings& settings) {
    try {
      (void)report(settings);
    } catch (const Error& error) {
      return error.what();
    }
    return "done";
  }
};

TEST_F(StabilityOfARun, SaysThatItIsAProxyAndHasItsTables) {
  const Report found = report(settings({"bf16", "gaussws-all"}));
  ASSERT_EQ(found.sections.size(), 2u);
  EXPECT_EQ(found.sections[0].paragraphs.front().substr(0, 16), "This is a proxy.");
  EXPECT_NE(found.sections[0].paragraphs[0].find("30 billion tokens"), std::string::npos);
  EXPECT_EQ(found.sections[1].heading.substr(0, 5), "Llama");
  const std::vector<std::string> recipes = {"bf16", "gaussws-all"};
  EXPECT_EQ(stability_grid_of(found, "llama_summary").rows, recipes);
  const auto& said = found.sections[1].paragraphs;  // of six steps
  EXPECT_NE(said.front().find("too short to tell rates apart"), std::string::npos);
  for (const char* name : {"loss", "max_logit", "spikes", "excess", "skipped", "grad_norm"}) {
    const Grid& grid = stability_grid_of(found, fmt::format("llama_{}", name));
    EXPECT_EQ(grid.columns, recipes) << name;
    EXPECT_EQ(grid.rows, peak_rate_names()) << name;
  }
  EXPECT_EQ(stability_grid_of(found, "llama_loss_by_step").rows.size(), 6u);
  EXPECT_EQ(stability_grid_of(found, "llama_logit_by_step").rows.size(), 6u);
  EXPECT_EQ(found.sections[1].charts.size(), 5u);
  EXPECT_NE(page_of(found, {}).find("<svg"), std::string::npos);
}

TEST_F(StabilityOfARun, TakesModelTextAndStepsOfTheRun) {
  const Settings of_folder = settings({"bf16"});
  const Stability found = stability_runs(of_folder);
  ASSERT_EQ(found.tables.size(), 1u);
  const StabilityTask& task = found.tables.front().task;
  EXPECT_EQ(task.model.width, 12);
  EXPECT_EQ(task.settings.sequences, 2);
  EXPECT_EQ(task.schedule.steps, 6);
  EXPECT_EQ(task.warm(), 2);
  EXPECT_EQ(task.schedule.lr, 1);
  EXPECT_NEAR(task.schedule.min_lr, 0.1, 1e-12);
  EXPECT_EQ(task.tokens(), 6 * 2 * 8);

  Settings of_file = of_folder;  // a run that has not been trained
  of_file.run.folder = in("run.toml");
  of_file.run.steps = {12};
  const Stability longer = stability_runs(of_file);
  EXPECT_EQ(longer.tables.front().task.schedule.steps, 12);
  EXPECT_EQ(longer.tables.front().task.warm(), 4);
  EXPECT_EQ(longer.tables.front().ladders.front().front().first.losses.size(), 12u);
}

TEST_F(StabilityOfARun, HasTheSameBitsOnAnyNumberOfThreads) {
  const std::string csv = csv_of(report(settings({"bf16", "gaussws-all"})));
  EXPECT_EQ(csv_of(report(settings({"bf16", "gaussws-all"}, 2))), csv);
  Settings other = settings({"bf16", "gaussws-all"});
  other.seed = 2;
  EXPECT_NE(csv_of(report(other)), csv);
}

TEST_F(StabilityOfARun, HasAStandardErrorWithSeeds) {
  Settings two = settings({"bf16"});
  EXPECT_TRUE(std::isnan(stability_grid_of(report(two), "llama_loss").at(0, 0).error));
  two.run.draws = 2;
  EXPECT_GT(stability_grid_of(report(two), "llama_loss").at(0, 0).error, 0);
}

TEST_F(StabilityOfARun, RefusesWhatCannotBe) {
  const auto expect = [](const Settings& settings, const char* word) {
    const std::string said = refusal_of(settings);
    EXPECT_NE(said.find(word), std::string::npos) << said;
  };
  expect(settings({"bf16", "bf16"}), "named twice");
  expect(settings({"mxfp5"}), "mxfp5");
  expect(settings(std::vector<std::string>(9, "bf16")), "at most 8");
  Settings wrong = settings({"bf16"});
  wrong.run.steps = {2, 4};
  expect(wrong, "--steps: 2,4: one number");
  wrong.run.steps = {0};
  expect(wrong, "--steps: 0");
  wrong.run.steps.clear();
  wrong.run.folder = in("nowhere");
  expect(wrong, "no such folder");
}

}  // namespace
}  // namespace ng::study
