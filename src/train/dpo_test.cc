// A step on pairs: its gradient against differences of losses, what it leaves alone, and the same
// bits on ranks.
#include "train/dpo.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "comm/thread_ranks.h"
#include "support/tiny_run.h"

namespace ng {
namespace {

std::string recipe_of(const std::string& name) {
  return "name = \"of pairs\"\ninherit = \"" + name + "\"\n";
}

const std::vector<std::string> kRecipes = {
    "fp32",   "bf16",    "mxfp4-sr-rht",     "nvfp4",         "fp8-current",
    "fp8-lm", "sr-bf16", "adamw-fp8-states", "residual-bf16", "nvfp4-all"};

TinyRunOptions options_of(const std::string& recipe, DpoSettings dpo = {}) {
  return {.recipe = recipe_of(recipe), .dpo = std::move(dpo)};
}

// The first four targets of each sequence are a prompt's, and the last one is padding.
bool is_completion(size_t i) { return i % 11 >= 4 && i % 11 < 10; }

void put_mask(TinyRun& tiny) {
  for (int64_t micro = 0; micro < tiny.trainer().settings().micros; ++micro) {
    const std::span<float> mask = tiny.trainer().train_tokens(micro).mask;
    for (size_t i = 0; i < mask.size(); ++i) mask[i] = is_completion(i) ? 1.0f : 0.0f;
  }
}

StepReport step_of(TinyRun& tiny, int64_t number, float lr = TinyRun::kRate) {
  tiny.fill(number);
  put_mask(tiny);
  return tiny.trainer().step(number, lr);
}

/// Weights eight times the usual first ones, and not the reference's, so that z is far from 0.
void enlarge(TinyRun& tiny, const std::string& parameter, float moved) {
  for (size_t i = 0; i < tiny.model().parameters().size(); ++i) {
    const Parameter& p = tiny.model().parameters()[i];
    std::vector<float> values = download(tiny.run().backend(), p.value());
    if (!p.spec.is_vector)
      for (float& x : values) x *= 8;
    if (p.spec.name == parameter) values.front() += moved;
    const auto cols = static_cast<size_t>(p.spec.cols);
    for (size_t row = 0; row < values.size() / cols; ++row)
      tiny.model().write_row(tiny.run(), i, static_cast<int64_t>(row),
                             std::span(values).subspan(row * cols, cols));
  }
}

// Losses are sums in FP32 of relative error 2^-22 or so; their third derivative adds less than a
// hundredth.
TEST(Dpo, TheGradientIsThatOfTheLoss) {
  for (const double smoothing : {0.0, 0.2}) {
    TinyRunOptions options =
        options_of("fp32", {.beta = 0.5, .label_smoothing = smoothing, .reference_storage = {}});
    options.micros = 2;
    std::map<std::string, float> gradients;
    TinyRun tiny(options);
    enlarge(tiny, "", 0);
    tiny.trainer().set_gradient_observer([&] {
      for (const Parameter& p : tiny.model().parameters())
        gradients[p.spec.name] = download(tiny.run().backend(), p.grad.view()).front();
    });
    const StepReport report = step_of(tiny, 0);
    EXPECT_GT(std::abs(report.preferences->margins), 0.1) << "policy and reference are apart";
    for (const char* name : {"blocks.0.attn.q.weight", "blocks.0.mlp.up.weight",
                             "blocks.1.attn.out.weight", "blocks.1.norm2.weight", "norm.weight"}) {
      SCOPED_TRACE(name);
      const auto loss = [&](float moved) {
        TinyRun other(options);
        enlarge(other, name, moved);
        return step_of(other, 0).loss;
      };
      constexpr float kMoved = 0x1p-6f;
      const double want = (loss(kMoved) - loss(-kMoved)) / (2 * kMoved);
      ASSERT_TRUE(gradients.contains(name));
      EXPECT_GT(std::abs(want), 1e-4) << "too small to be seen";
      EXPECT_NEAR(gradients[name], want, 0.02 * std::abs(want) + 1e-5);
    }
  }
}

bool draws_in_forward(const std::string& name) {
  const Recipe recipe = Recipe::load(name);
  for (const char* linear : {"attn.q", "attn.out", "mlp.up", "mlp.down"}) {
    const std::string place = fmt::format("blocks.0.{}", linear);
    const LayerRecipe layer = recipe.layer({.name = place, .block = 0, .depth = 2}, 0);
    if (layer.weight_noise.kind != NoiseKind::none ||
        layer.linear.fprop.left.rounding == Rounding::stochastic)
      return true;
  }
  return false;
}

/// For policy and reference apart, in validation too.
bool draws_signs_in_forward(const std::string& name) {
  const GemmRecipe fprop = Recipe::load(name).settings(0).linear.fprop;
  return fprop.hadamard > 0 && fprop.hadamard_signs == HadamardSigns::random;
}

void expect_ln2(const PreferenceMetrics& metrics, double loss) {
  EXPECT_NEAR(loss, std::log(2.0), 1e-15);
  EXPECT_EQ(metrics.margins, 0);
  EXPECT_EQ(metrics.chosen_reward, 0);
  EXPECT_EQ(metrics.accuracies, 0);
  EXPECT_LT(metrics.chosen_logp, -6 * std::log(37.0) * 0.8) << "six tokens each";
}

PreferenceSums sums_of_validation(TinyRun& tiny, int64_t number) {
  tiny.fill(number);
  put_mask(tiny);
  const BatchSpans from = tiny.trainer().train_tokens(0), to = tiny.trainer().evaluation_tokens();
  std::copy(from.inputs.begin(), from.inputs.end(), to.inputs.begin());
  std::copy(from.targets.begin(), from.targets.end(), to.targets.begin());
  std::copy(from.mask.begin(), from.mask.end(), to.mask.begin());
  return tiny.trainer().evaluate_pairs();
}

/// Steps without a change of the weights, in which quantizers' state moves on.
void expect_ln2_throughout(const TinyRunOptions& options, bool draws, int64_t steps = 3) {
  TinyRun tiny(options);
  for (int64_t step = 0; step < steps; ++step) {
    const StepReport report = step_of(tiny, step, 0);
    EXPECT_EQ(report.targets, tiny.trainer().micros_of_all() * 4 * 6);
    if (!draws) expect_ln2(*report.preferences, report.loss);
    const PreferenceSums sums = sums_of_validation(tiny, step + 7);
    expect_ln2(metrics_of(sums), sums.loss / sums.pairs);
  }
}

// Where the policy is the reference every z is 0: to the bit, in validation and wherever a forward
// pass draws nothing in training; but for signs.
TEST(Dpo, BeginsAtTheLogarithmOfTwoWithEveryRecipe) {
  size_t drawing = 0;
  for (const std::string& recipe : recipe_names()) {
    SCOPED_TRACE(recipe);
    if (draws_signs_in_forward(recipe)) continue;
    const bool draws = draws_in_forward(recipe);
    drawing += draws ? 1 : 0;
    // A carry that lies half between two values moves its weight with any update.
    expect_ln2_throughout(options_of(recipe), draws, recipe == "kahan-bf16" ? 1 : 3);
  }
  EXPECT_EQ(drawing, 11u);
}

// What ranks send rounded they compute with, and so does the reference.
TEST(Dpo, BeginsAtTheLogarithmOfTwoOnRanks) {
  for (const char* recipe : {"bf16", "mxfp8", "fp8-delayed", "fp8-lm", "residual-fp8"})
    run_ranks(2, [&](Comm& comm) {
      SCOPED_TRACE(recipe);
      TinyRunOptions options = options_of(recipe);
      options.comm = &comm;
      expect_ln2_throughout(options, false);
    });
}

// A head that is scaled by history, and stored codes that operands take.
TEST(Dpo, BeginsAtTheLogarithmOfTwoWhereverScalesAreDelayed) {
  const std::string delayed = "{format='fp8_e4m3', scaling='delayed', amax_history=2}";
  for (const std::string& more :
       {"[[override]]\nlayers=['head']\nlinear.fprop={input=" + delayed + ", weight=" + delayed +
            "}\n",
        std::string("[[phase]]\nstart=0.5\nlinear.fprop={input='fp8_e4m3', weight='fp8_e4m3'}\n"),
        std::string("weights={storage={format='fp8_e4m3', scale='pow2'}, master='fp16'}\n")}) {
    SCOPED_TRACE(more);
    TinyRunOptions options;
    options.recipe = "name='x'\ninherit='fp8-delayed'\n" + more;
    options.dpo = DpoSettings{};
    expect_ln2_throughout(options, false);
  }
}

// Its own storage, beside a policy whose stored codes have no history of scales: they are those
// that an operand scaled by itself has.
TEST(Dpo, AReferenceOfItsOwnStorageScalesByItself) {
  TinyRunOptions options = options_of("fp32", {.reference_storage = operand_of("fp32")});
  options.recipe = "name='x'\ninherit='fp8-delayed'\nweights={storage='fp8_e4m3', master='fp32'}\n";
  TinyRun tiny(options);
  const StepReport report = step_of(tiny, 0);
  expect_ln2(*report.preferences, report.loss);
}

TEST(Dpo, LearnsItsPairsWithEveryRecipe) {
  for (const std::string& recipe : kRecipes) {
    SCOPED_TRACE(recipe);
    TinyRun tiny(options_of(recipe));
    const std::vector<float> before = tiny.weights_of(*tiny.reference());
    StepReport report;
    for (int64_t step = 0; step < 12; ++step) {
      tiny.fill(0);  // the same pairs
      put_mask(tiny);
      report = tiny.trainer().step(step, TinyRun::kRate);
      EXPECT_FALSE(report.skipped);
    }
    EXPECT_LT(report.loss, 0.5);
    EXPECT_GT(report.preferences->margins, 0.4);
    EXPECT_EQ(report.preferences->accuracies, 1);
    EXPECT_EQ(tiny.weights_of(*tiny.reference()), before) << "a reference stays";
  }
}

TEST(Dpo, AReferenceInFewBitsIsNearTheSame) {
  for (const char* storage : {"bf16", "fp8_e4m3", "mxfp8_e4m3", "nvfp4"}) {
    SCOPED_TRACE(storage);
    TinyRun tiny(options_of("fp32", {.reference_storage = operand_of(storage)}));
    const StepReport report = step_of(tiny, 0);
    EXPECT_NE(report.preferences->margins, 0) << "it is rounded";
    EXPECT_NEAR(report.loss, std::log(2.0), 0.01);
  }
}

TEST(Dpo, WhatAMaskedTargetHoldsChangesNothing) {
  TinyRun tiny(options_of("mxfp4-sr-rht")), other(options_of("mxfp4-sr-rht"));
  for (int64_t step = 0; step < 3; ++step) {
    const StepReport want = step_of(tiny, step);
    other.fill(step);
    put_mask(other);
    const BatchSpans to = other.trainer().train_tokens(0);
    for (size_t i = 0; i < to.targets.size(); ++i)
      if (!is_completion(i)) to.targets[i] = -1;  // no token at all
    const StepReport have = other.trainer().step(step, TinyRun::kRate);
    EXPECT_EQ(have.loss, want.loss);
    EXPECT_EQ(have.preferences->margins, want.preferences->margins);
  }
  EXPECT_EQ(other.weights(), tiny.weights());
}

// A head that works through its tokens in pieces, and blocks that are run twice.
TEST(Dpo, RecomputationChangesNothing) {
  for (const std::string recipe : {"fp32", "mxfp4-sr-rht"}) {
    TinyRunOptions options = options_of(recipe);
    options.micros = 2;
    TinyRun plain(options);
    options.recompute = RecomputePolicy::block;
    TinyRun again(options);
    for (int64_t step = 0; step < 3; ++step)
      EXPECT_EQ(step_of(again, step).loss, step_of(plain, step).loss);
    EXPECT_EQ(again.weights(), plain.weights());
  }
}

TEST(Dpo, ValidationIsTheStepsOwnLossWithoutItsStep) {
  TinyRun tiny(options_of("fp32"));
  step_of(tiny, 0);
  const PreferenceSums sums = sums_of_validation(tiny, 1);
  const StepReport report = tiny.trainer().step(1, TinyRun::kRate);
  EXPECT_EQ(sums.pairs, 2);
  EXPECT_EQ(sums.loss / 2, report.loss);
  EXPECT_EQ(metrics_of(sums).margins, report.preferences->margins);
  EXPECT_NE(report.preferences->margins, 0);
}

struct DpoOutcome {
  std::vector<float> weights;
  std::vector<double> losses, margins;
  friend bool operator==(const DpoOutcome&, const DpoOutcome&) = default;
};

DpoOutcome train_on(int ranks, TinyRunOptions options, int64_t micros) {
  std::vector<DpoOutcome> outcomes(static_cast<size_t>(ranks));
  run_ranks(ranks, [&](Comm& comm) {
    TinyRunOptions mine = options;
    mine.micros = micros / ranks;
    mine.comm = &comm;
    TinyRun tiny(mine);
    DpoOutcome& outcome = outcomes[static_cast<size_t>(comm.rank())];
    for (int64_t step = 0; step < 3; ++step) {
      const StepReport report = step_of(tiny, step);
      outcome.losses.push_back(report.loss);
      outcome.margins.push_back(report.preferences->margins);
    }
    outcome.weights = tiny.weights();
  });
  for (const DpoOutcome& outcome : outcomes) EXPECT_TRUE(outcome == outcomes.front());
  return outcomes.front();
}

TEST(Dpo, GlobalBitsDoNotDependOnTheRanks) {
  for (const std::string recipe : {"fp32", "bf16", "mxfp4-sr-rht", "nvfp4", "sr-bf16"}) {
    SCOPED_TRACE(recipe);
    TinyRunOptions options = options_of(recipe, {.reference_storage = operand_of("fp8_e4m3")});
    options.determinism = Determinism::global;
    const DpoOutcome want = train_on(1, options, 4);
    EXPECT_NE(want.margins.back(), 0);
    for (const int ranks : {2, 4}) EXPECT_TRUE(train_on(ranks, options, 4) == want) << ranks;
  }
}

// FP8 gradients: the mean over pairs of all ranks, but for what travels rounded.
TEST(Dpo, RanksAgreeAndRepeat) {
  const TinyRunOptions options = options_of("fp8-lm");
  const DpoOutcome first = train_on(2, options, 4);
  EXPECT_TRUE(train_on(2, options, 4) == first);
  const DpoOutcome alone = train_on(1, options, 4);
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(first.losses[i], alone.losses[i], 0.02);
}

// By hand, of 64-byte multiples: 2 blocks of 7 matrices and 2 gains, embedding and a last gain.
TEST(Dpo, BytesByRoleAreThoseOfTheValuesAlone) {
  const auto bytes = [](const std::string& recipe, std::optional<Operand> storage) {
    TinyRun tiny(options_of(recipe, {.reference_storage = storage}));
    const MemoryPlan plan = tiny.trainer().memory();
    EXPECT_EQ(plan.total, tiny.run().allocated_bytes());
    EXPECT_EQ(bytes_by_role(plan)->reference,
              plan.bytes[static_cast<size_t>(MemoryKind::reference)]);
    StepSettings settings = tiny.trainer().settings();
    const MemoryPlan planned =
        plan_memory(tiny.run().backend(), tiny_llama(), Recipe::parse(recipe_of(recipe), "t.toml"),
                    RecomputePolicy::none, settings);
    EXPECT_EQ(planned.total, plan.total);
    EXPECT_EQ(planned.bytes, plan.bytes);
    return *bytes_by_role(plan);
  };
  const auto weights = [](size_t of_value) {
    size_t sum = 0;
    for (const ParameterSpec& spec : parameter_table(tiny_llama())) {
      const auto values = static_cast<size_t>(spec.rows * spec.cols);
      sum += persistent_bytes(values * (spec.is_vector ? sizeof(float) : of_value));
    }
    return sum;
  };
  const RoleBytes fp32 = bytes("fp32", {});
  EXPECT_EQ(fp32.reference, weights(4));
  EXPECT_EQ(fp32.policy, 16 * (weights(4) / 4)) << "values, two moments, gradients";
  EXPECT_EQ(bytes("fp32", operand_of("bf16")).reference, weights(2));
  EXPECT_EQ(bytes("sr-bf16", {}).reference, weights(2)) << "as the policy's";
  EXPECT_EQ(bytes("sr-bf16", operand_of("fp32")).reference, weights(4));
  EXPECT_LT(bytes("fp8-lm", {}).reference, weights(2)) << "no master";
  EXPECT_FALSE(bytes_by_role(TinyRun({}).trainer().memory()).has_value());
}

}  // namespace
}  // namespace ng
