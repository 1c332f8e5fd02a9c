// Training with noise on weights: what it touches, and what it leaves alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/json.h"
#include "support/tiny_run.h"
#include "train/bit_widths.h"

namespace ng {
namespace {

TinyRunOptions options_of(const std::string& recipe, const ModelConfig& model = tiny_llama()) {
  TinyRunOptions options;
  options.recipe = "name = 'test'\n" + recipe;
  options.model = model;
  return options;
}

const char* const kNoises[] = {"inherit = 'gaussws-all'", "inherit = 'diffq'", "inherit = 'nipq'"};

/// Values of a parameter.
std::vector<float> values_of(TinyRun& tiny, const std::string& name) {
  for (const Parameter& p : tiny.model().parameters())
    if (p.spec.name == name) return download(tiny.run().backend(), p.value());
  ADD_FAILURE() << name;
  return {};
}

std::vector<std::string> learned(TinyRun& tiny) {
  std::vector<std::string> names;
  for (const Parameter& p : tiny.model().parameters())
    if (p.spec.name.ends_with(".b_i") || p.spec.name.ends_with(".alpha"))
      names.push_back(p.spec.name);
  return names;
}

void fill(const BatchSpans& to) {
  std::iota(to.inputs.begin(), to.inputs.end(), 0);
  std::iota(to.targets.begin(), to.targets.end(), 1);
  for (int32_t& token : to.inputs) token %= 37;
  for (int32_t& token : to.targets) token %= 37;
}

TEST(WeightNoise, LeavesEveryOtherTensorItsNameAndDraws) {
  TinyRun without(options_of("inherit = 'bf16'"));
  const std::vector<std::string>& names = without.model().tensors().names();
  const std::vector<float> weights = without.weights();
  for (const char* noise : kNoises) {
    TinyRun with(options_of(noise));
    const std::vector<std::string>& more = with.model().tensors().names();
    ASSERT_GT(more.size(), names.size());
    EXPECT_TRUE(std::equal(names.begin(), names.end(), more.begin())) << noise;
    std::vector<float> same = with.weights();
    same.resize(weights.size());
    EXPECT_EQ(same, weights) << noise;
  }
}

TEST(WeightNoise, EvaluationDrawsNothing) {
  const auto evaluate = [](TinyRun& tiny) {
    const BatchSpans tokens = tiny.trainer().evaluation_tokens();
    fill(tokens);
    std::fill(tokens.mask.begin(), tokens.mask.end(), 1.0f);
    return tiny.trainer().evaluate();
  };
  TinyRun without(options_of("inherit = 'bf16'"));
  const double loss = evaluate(without);
  ASSERT_GT(loss, 1);
  for (const char* noise : {"inherit = 'gaussws-all'", "inherit = 'diffq'"}) {
    TinyRun with(options_of(noise));
    EXPECT_EQ(evaluate(with), loss) << noise;
  }
  TinyRun quantized(options_of("inherit = 'nipq'"));
  const double once = evaluate(quantized);
  EXPECT_NE(once, loss);
  EXPECT_NEAR(once, loss, 0.01 * loss);  // by 6 bits
  fill(quantized.trainer().train_tokens(0));
  (void)quantized.trainer().step(7, 0);  // other draws
  EXPECT_EQ(evaluate(quantized), once);
}

// At a learning rate of 0 the noise of a step is all that changes.
TEST(WeightNoise, IsNewAtEachStepAndTheSameWhenRepeated) {
  for (const char* noise : kNoises) {
    TinyRun tiny(options_of(noise));
    const auto loss_at = [&](int64_t step) {
      fill(tiny.trainer().train_tokens(0));
      return tiny.trainer().step(step, 0).loss;
    };
    const double first = loss_at(0);
    EXPECT_NE(loss_at(1), first) << noise;
    EXPECT_EQ(loss_at(0), first) << noise;
  }
}

TEST(WeightNoise, MicroBatchesShareIt) {
  for (const char* noise : kNoises) {
    TinyRunOptions options = options_of(noise);
    options.micros = 2;
    TinyRun two(options), one(options_of(noise));
    for (int64_t micro = 0; micro < 2; ++micro) fill(two.trainer().train_tokens(micro));
    fill(one.trainer().train_tokens(0));
    EXPECT_EQ(two.trainer().step(0, 0).loss, one.trainer().step(0, 0).loss) << noise;
  }
}

TEST(WeightNoise, PartsOfBothArchitectures) {
  const auto layers_with = [](const std::string& recipe, const ModelConfig& model) {
    TinyRun tiny(options_of("inherit = '" + recipe + "'", model));
    return learned(tiny).size() / 2;  // of one block
  };
  const ModelConfig llama = tiny_llama(), gpt2 = tiny_gpt2();
  const std::pair<const char*, std::pair<size_t, size_t>> parts[] = {
      {"gaussws-qkv", {3, 1}},  {"gaussws-out", {1, 1}}, {"gaussws-up", {2, 1}},
      {"gaussws-down", {1, 1}}, {"gaussws-od", {2, 2}},  {"gaussws-all", {7, 4}}};
  for (const auto& [recipe, layers] : parts) {
    EXPECT_EQ(layers_with(recipe, llama), layers.first) << recipe;
    EXPECT_EQ(layers_with(recipe, gpt2), layers.second) << recipe;
  }
}

// b_i decays by its own decay, whatever weights do, and moves by its gradient.
TEST(WeightNoise, BitWidthsMoveAndDecay) {
  TinyRun still(options_of("inherit = 'gaussws-all'\nweight_noise.bitwidth_weight_decay = 0"));
  TinyRun decaying(options_of("inherit = 'gaussws-all'\nweight_noise.bitwidth_weight_decay = 10"));
  for (TinyRun* tiny : {&still, &decaying}) (void)tiny->step(0);
  for (const std::string& name : learned(still)) {
    const float moved = values_of(still, name)[0], decayed = values_of(decaying, name)[0];
    EXPECT_NE(moved, 1.0f) << name;
    EXPECT_NEAR(decayed, moved - 0.1f, 1e-6f) << name;
  }
}

TEST(WeightNoise, BitWidthsInFigures) {
  const BitWidths figures = figures_of({4, 6, 10, 12});
  EXPECT_EQ(figures.mean, 8);
  EXPECT_EQ(figures.sd, std::sqrt(10.0));
  EXPECT_EQ(figures.least, 4);
  EXPECT_EQ(figures.most, 12);
  EXPECT_EQ(figures.up_to_5, 0.25);
  EXPECT_EQ(figures.up_to_9, 0.5);
  EXPECT_EQ(figures.up_to_12, 1);
  TinyRunOptions options = options_of("inherit = 'gaussws-up'\nweight_noise.b_init = 7");
  TinyRun tiny(options);
  const Json json =
      bit_widths_json(tiny.run(), tiny.model(), Recipe::parse(options.recipe, "test.toml"));
  EXPECT_EQ(json.size(), 4u);  // gate and up of two blocks
  EXPECT_EQ(json["blocks.1.mlp.up"]["mean"], 7);
  EXPECT_EQ(json["blocks.1.mlp.up"]["up_to_5"], 0);
}

// A tensor that learns its range of noise begins above its largest weight.
TEST(WeightNoise, NipqBeginsAtTheLargestWeight) {
  TinyRun tiny(options_of("inherit = 'nipq'"));
  const std::vector<float> weights = values_of(tiny, "blocks.1.mlp.up.weight");
  EXPECT_EQ(values_of(tiny, "blocks.1.mlp.up.alpha"),
            std::vector<float>{*std::max_element(weights.begin(), weights.end())});
  EXPECT_NEAR(proxy_bits(values_of(tiny, "blocks.1.mlp.up.b_i")[0]), 6, 1e-6);
}

TEST(WeightNoise, BitWidthsThatAreNotFiniteSkipTheStepAndAreNamed) {
  TinyRun tiny(options_of("inherit = 'gaussws-all'"));
  for (Parameter& p : tiny.model().parameters())
    if (p.spec.name == "blocks.0.mlp.up.b_i")
      tiny.run().execute(Fill{.x = p.value(), .value = std::nanf("")});
  EXPECT_TRUE(tiny.step(0).skipped);
  EXPECT_EQ(tiny.trainer().diagnose(0).layer, "blocks.0.mlp.up");
}

}  // namespace
}  // namespace ng
