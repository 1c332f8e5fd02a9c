#include "speed/advice.h"

#include <gtest/gtest.h>

#include "backend/wrapped_backend.h"
#include "run/backends.h"
#include "train/memory_plan.h"

namespace ng {
namespace {

// Wide enough that its first and last block differ from the others in recipes that keep some wide.
ModelConfig four_blocks() {
  return {.vocab = 300,
          .layers = 4,
          .heads = 2,
          .kv_heads = 2,
          .head_dim = 32,
          .width = 64,
          .ffn = 128,
          .context = 32};
}

std::unique_ptr<Backend> cpu() { return make_backend("cpu", {1}); }

AdviceSettings settings_of(double seconds) {
  return {.shape = {.batch = 1, .length = 32, .steps = 1, .warmup = 0},
          .seconds = seconds,
          .backend = cpu,
          .progress = [](int64_t, int64_t) {}};
}

// An outline is of the very operations that a step does.
TEST(Advice, OutlinesHaveTheOperationsOfSteps) {
  const std::unique_ptr<Backend> backend = cpu();
  for (const char* name : {"bf16", "mxfp4-sr-rht", "nvfp4", "fp8-delayed", "gaussws-all",
                           "adam-mini", "residual-fp8", "precision-aware-bf16", "quartet2"}) {
    const Recipe recipe = Recipe::load(name);
    const BenchShape shape = settings_of(0).shape;
    const StepOutline outline = outline_step(*backend, four_blocks(), recipe, shape);
    EXPECT_GT(outline.rows.size(), 10u) << name;
    OperationTimes times;
    times.measure(cpu(), four_blocks(), recipe, shape);
    for (const StepOutline::Row& row : outline.rows)
      EXPECT_TRUE(times.knows(row)) << name << ": " << row.key.text;
    EXPECT_GT(total_seconds(times.seconds(outline)), 0) << name;
    EXPECT_EQ(outline.memory.total,
              plan_memory(*backend, four_blocks(), recipe, RecomputePolicy::none,
                          {.sequences = 1, .length = 32, .micros = 1, .optimizer = {}})
                  .total)
        << name;
  }
}

TEST(Advice, IsOnRecipesForWhichThereIsTime) {
  OperationTimes times;
  const std::vector<std::string> recipes = {"bf16", "mxfp4-all", "fp32"};
  const std::vector<Advice> all = advise(times, four_blocks(), recipes, settings_of(100));
  ASSERT_EQ(all.size(), 3u);
  for (const Advice& advice : all) {
    EXPECT_TRUE(advice.is_known) << advice.recipe;
    EXPECT_GT(advice.tokens_per_second, 0) << advice.recipe;
    EXPECT_EQ(advice.has_fp4, advice.recipe == "mxfp4-all");
  }
  OperationTimes none;
  for (const Advice& advice : advise(none, four_blocks(), recipes, settings_of(-1))) {
    EXPECT_FALSE(advice.is_known) << advice.recipe;
    EXPECT_GT(advice.bytes, 0u) << advice.recipe;
  }
  const std::vector<WidthAdvice> widths =
      advise_widths(times, four_blocks(), "bf16", "mxfp4-all", settings_of(100));
  ASSERT_EQ(widths.size(), 3u);
  EXPECT_EQ(widths.front().width, 32);
  EXPECT_EQ(widths.back().width, 128);
}

/// A card whose operations take a second each by its own clock.
class SecondEach final : public WrappedBackend {
 public:
  SecondEach() : WrappedBackend(cpu()) {}
  [[nodiscard]] bool is_in_hosts_reach() const override { return false; }
  [[nodiscard]] bool measures_seconds() const override { return true; }
  [[nodiscard]] TimeByKind measured_seconds() override { return {seconds_}; }
  void execute(const Operation& operation) override {
    WrappedBackend::execute(operation);
    seconds_ += 1;
  }

 private:
  double seconds_ = 0;
};

// The host's clock would see how long it takes to launch them.
TEST(Advice, ACardTellsTheTimeOfItsOperations) {
  const Recipe recipe = Recipe::load("bf16");
  const BenchShape shape = settings_of(0).shape;
  const StepOutline outline = outline_step(*cpu(), four_blocks(), recipe, shape);
  OperationTimes times;
  times.measure(std::make_unique<SecondEach>(), four_blocks(), recipe, shape);
  double operations = 0;
  for (const StepOutline::Row& row : outline.rows) operations += static_cast<double>(row.count);
  EXPECT_EQ(total_seconds(times.seconds(outline)), operations);
}

// Widths at which three queries cannot share a key.
TEST(Advice, WidthsKeepHeadsWhole) {
  ModelConfig model = four_blocks();
  model.heads = 3;
  model.kv_heads = 1;
  model.width = 96;
  OperationTimes times;
  std::vector<int64_t> widths;
  for (const WidthAdvice& at : advise_widths(times, model, "bf16", "nvfp4-all", settings_of(100)))
    widths.push_back(at.width);
  EXPECT_EQ(widths, (std::vector<int64_t>{32, 64, 128}));
}

TEST(Advice, PaysFromTheWidthBehindWhichItAlwaysDoes) {
  const WidthAdvice slower = {64, 1, 2}, faster = {256, 2, 1};
  EXPECT_EQ(pays_from({}), 0);
  EXPECT_EQ(pays_from({slower}), 0);
  EXPECT_EQ(pays_from({{32, 2, 1}, slower, {128, 2, 1}, faster}), 128);
  EXPECT_EQ(pays_from({{32, 2, 1}, slower}), 0);
  EXPECT_EQ(pays_from({{32, 2, 1}, faster}), 32);
}

}  // namespace
}  // namespace ng
