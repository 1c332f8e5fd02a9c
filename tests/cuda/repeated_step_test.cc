// Steps whose launches were captured once and are done again end in the bits of steps that are
// launched anew, whatever changes from step to step: keys, signs, rates, corrections, targets.
#include <gtest/gtest.h>

#include <atomic>
#include <iterator>
#include <limits>
#include <span>

#include "base/sanitized_testing.h"
#include "card_runs.h"

namespace ng {
namespace {

/// The second step is captured, the third done again as it was.
constexpr int64_t kRepeated = 3;

/// The emulated card, which counts the operations that the host asks for one by one.
class CountedCard final : public WrappedBackend {
 public:
  static inline int64_t executed = 0;

  CountedCard() : WrappedBackend(make_emulated_cuda_backend({.is_managed = true})) {}

  void execute(const Operation& operation) override {
    ++executed;
    WrappedBackend::execute(operation);
  }
  std::unique_ptr<RepeatedStep> make_repeated_step() override {
    return wrapped().make_repeated_step();
  }
};

/// Steps with rates of their own and, where targets are masked, a count of their own.
Trained steps_of(const TinyRunOptions& options) {
  TinyRun run(options);
  Trained result;
  for (int64_t step = 0; step < kRepeated; ++step) {
    run.fill(step);
    for (int64_t i = 0; i <= step && options.masked; ++i)
      run.trainer().train_tokens(0).mask[static_cast<size_t>(i)] = 0;
    const float rate = TinyRun::kRate / static_cast<float>(step + 1);
    result.losses.push_back(run.trainer().step(step, rate).loss);
  }
  result.weights = run.weights();
  return result;
}

template <bool kUnits = false>
void expect_as_anew(TinyRunOptions options) {
  SCOPED_TRACE(options.recipe);
  options.make_backend = [] {
    return make_emulated_cuda_backend({.is_managed = kSanitized, .has_units = kUnits});
  };
  const Trained again = steps_of(options);
  options.make_backend = [] {
    return make_emulated_cuda_backend(
        {.is_managed = kSanitized, .has_units = kUnits, .has_graphs = false});
  };
  const Trained anew = steps_of(options);
  EXPECT_EQ(again.losses, anew.losses);
  EXPECT_EQ(again.weights, anew.weights);
}

// Of each kind of draw, of scale that follows steps, and of update, one; sanitizers need no more
// than one of all.
TEST(CudaRepeatedStep, HasTheBitsOfOneThatIsLaunchedAnew) {
  constexpr const char* kKinds[] = {
      "mxfp4-sr-rht", "muon",      "quartet2",     "fp8-delayed",  "gaussws-all",        "nipq",
      "sr-fp8",       "adam-mini", "residual-fp8", "feedback-fp8", "precision-aware-fp8"};
  for (const char* recipe : std::span(kKinds).first(kSanitized ? 2 : std::size(kKinds)))
    expect_as_anew(options_of(tiny_llama(), recipe, kCard));
}

TEST(CudaRepeatedStep, HasThemOfMatrixUnits) {
  for (const char* recipe : {"mxfp4-sr-rht", "int8"})
    expect_as_anew<true>(options_of(tiny_llama(), recipe, kCardWithUnits));
}

TEST(CudaRepeatedStep, HasThemOfMicroBatchesMasksAndPairs) {
  TinyRunOptions options = options_of(tiny_llama(), "mxfp4-sr-rht", kCard);
  options.micros = 3;
  options.masked = true;
  expect_as_anew(options);
  options = options_of(tiny_llama(), "mxfp4-sr-rht", kCard);
  options.dpo.emplace();
  expect_as_anew(options);
}

/// With an evaluation, a step that is reported, one that is skipped, and another phase between.
Trained eventful_steps_of(const TinyRunOptions& options) {
  constexpr int64_t kCount = 12, kReported = 4, kSkipped = 6, kNextPhase = 8;
  TinyRun run(options);
  Trained result;
  for (int64_t step = 0; step < kCount; ++step) {
    if (step == kNextPhase) run.trainer().set_phase(1);
    run.trainer().set_reports_details(step == kReported);
    run.fill(step);
    const float rate = step == kSkipped ? std::numeric_limits<float>::infinity() : TinyRun::kRate;
    const StepReport report = run.trainer().step(step, rate);
    EXPECT_EQ(report.skipped, step == kSkipped) << step;
    result.losses.push_back(report.loss);
    if (step % 3 == 2) result.losses.push_back(run.trainer().evaluate());
  }
  result.weights = run.weights();
  return result;
}

// Each fifth step is executed for its times; memory that is taken anew forgets what was captured.
TEST(CudaRepeatedStep, OthersBetweenThemChangeNothing) {
  TinyRunOptions options = options_of(tiny_llama(), "nvfp4-late-bf16", kCard);
  options.make_backend = [] {
    return make_emulated_cuda_backend({.is_managed = kSanitized, .measured_every = 5});
  };
  const Trained again = eventful_steps_of(options);
  options.make_backend = [] {
    return make_emulated_cuda_backend({.is_managed = kSanitized, .has_graphs = false});
  };
  const Trained anew = eventful_steps_of(options);
  EXPECT_EQ(again.losses, anew.losses);
  EXPECT_EQ(again.weights, anew.weights);
}

TEST(CudaRepeatedStep, IsCapturedAnewWhereMemoryMoves) {
  const auto trained_with = [](bool moves) {
    TinyRunOptions options = options_of(tiny_llama(), "mxfp4-sr-rht", kCard);
    options.make_backend = [] { return make_emulated_cuda_backend({.is_managed = kSanitized}); };
    TinyRun run(options);
    std::vector<double> losses;
    for (int64_t step = 0; step < 6; ++step) {
      if (moves && step == 3) {
        const Program larger =
            run.run().record([&] { (void)run.run().tensor(4096, 4096, fp32_format()); });
        run.run().reserve({&larger});
      }
      losses.push_back(run.step(step).loss);
    }
    return losses;
  };
  EXPECT_EQ(trained_with(true), trained_with(false));
}

TEST(CudaRepeatedStep, IsLeftToTheCardAfterTheSecondTime) {
  TinyRunOptions options = options_of(tiny_llama(), "bf16", kCard);
  options.make_backend = [] { return std::unique_ptr<Backend>(new CountedCard); };
  TinyRun run(options);
  std::vector<int64_t> executed;
  for (int64_t step = 0; step < kRepeated; ++step) {
    CountedCard::executed = 0;
    run.step(step);
    executed.push_back(CountedCard::executed);
  }
  EXPECT_GT(executed[0], 100);
  EXPECT_EQ(executed[1], executed[0]);
  EXPECT_EQ(executed[2], 0);
}

// Tokens, targets, masks, first keys and the live table go to the card while it computes; what the
// host waits for is the step's report.
TEST(CudaRepeatedStep, IsWaitedForOnce) {
  static std::atomic<int64_t> waits;
  TinyRunOptions options = options_of(tiny_llama(), "mxfp4-sr-rht", kCard);
  options.masked = true;
  options.document = 4;
  options.make_backend = [] {
    return make_emulated_cuda_backend({.is_managed = kSanitized, .host_waits = &waits});
  };
  TinyRun run(options);
  for (int64_t step = 0; step < 3 * kRepeated; ++step) {
    run.fill(step);
    const int64_t before = waits;
    (void)run.trainer().step(step, TinyRun::kRate);
    EXPECT_EQ(waits - before, 1) << step;
  }
}

// The card measures itself: what is done again has its time, too, by kinds as when it was measured.
TEST(CudaRepeatedStep, HasTheTimesOfItsKinds) {
  TinyRun run(options_of(tiny_llama(), "bf16", kCard));
  for (int64_t step = 0; step < 2; ++step) run.step(step);
  const TimeByKind before = run.run().seconds();
  run.step(2);
  const TimeByKind after = run.run().seconds();
  for (const TimeKind kind : {TimeKind::gemm_fprop, TimeKind::attention, TimeKind::optimizer}) {
    const auto i = static_cast<size_t>(kind);
    EXPECT_GT(before[i], 0) << name_of(kind);
    EXPECT_GT(after[i], before[i]) << name_of(kind);
  }
}

// By name, as CudaRecipes: each recipe that there is.
TEST(CudaRepeatedStep, DISABLED_HasTheBitsInEachRecipe) {
  for (const std::string& recipe : recipe_names())
    expect_as_anew(options_of(tiny_llama(), recipe, kCard));
}

}  // namespace
}  // namespace ng
