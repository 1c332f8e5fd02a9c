// Inputs of layers that are kept as operands, made again, or made again with their blocks: the same
// bits and counters, other memory.
#include <gtest/gtest.h>

#include <algorithm>

#include "run/transfer.h"
#include "support/tiny_run.h"

namespace ng {
namespace {

// Of so many tokens that blocks and transforms pad little.
constexpr int64_t kSequences = 4, kLength = 32;

ModelConfig longer(ModelConfig model) {
  model.context = kLength;
  return model;
}

/// What a run leaves: weights, losses, and of each operand what its casts lost.
struct Left {
  std::vector<float> weights;
  std::vector<double> losses;
  std::vector<uint64_t> lost;
  size_t activations = 0;  ///< and operands at their most, bytes
  friend bool operator==(const Left&, const Left&) = default;
};

Left run_of(TinyRunOptions options, RecomputePolicy recompute) {
  options.recompute = recompute;
  TinyRun tiny(options);
  Left left;
  for (int step = 0; step < 3; ++step) {
    const StepReport report = tiny.step(step);
    left.losses.push_back(report.loss);
    left.losses.push_back(report.grad_norm);
  }
  left.weights = tiny.weights();
  for (const OperandStats& of : tiny.model().read_stats(tiny.run()))
    left.lost.insert(left.lost.end(), {of.values, of.saturated, of.flushed});
  left.activations = tiny.trainer().memory().total;
  return left;
}

struct KeptCase {
  const char* recipe;
  bool is_kept;  ///< by cpu, in either model: its operands of wgrad are narrower than activations
};

class KeptInputs : public ::testing::TestWithParam<KeptCase> {};

TEST_P(KeptInputs, ChangeMemoryAlone) {
  for (const ModelConfig& model : {longer(tiny_gpt2()), longer(tiny_llama())})
    for (const int64_t micros : {1, 2}) {
      TinyRunOptions options{
          .model = model,
          .recipe = "name = 'test'\ninherit = '" + std::string(GetParam().recipe) + "'\n",
          .micros = micros,
          .sequences = kSequences,
          .length = kLength};
      Left kept = run_of(options, RecomputePolicy::none);
      const Left again = run_of(options, RecomputePolicy::inputs);
      Left blocks = run_of(options, RecomputePolicy::block);
      EXPECT_EQ(kept.activations != again.activations, GetParam().is_kept);
      kept.activations = blocks.activations = again.activations;
      EXPECT_EQ(kept, again) << micros;
      EXPECT_EQ(blocks, again) << micros;
    }
}

// Layers that share an input and do not all take its mean off keep no operand for all of them.
TEST(KeptInput, OfLayersThatDifferInMeansAreMadeAgain) {
  TinyRunOptions options{.model = longer(tiny_llama()),
                         .recipe =
                             "name = 'test'\ninherit = 'averis'\noverride = [{ layers = "
                             "'blocks.*.attn.q', linear.wgrad.center = 'none' }]\n",
                         .micros = 1,
                         .sequences = kSequences,
                         .length = kLength};
  Left kept = run_of(options, RecomputePolicy::none);
  const Left again = run_of(options, RecomputePolicy::inputs);
  kept.activations = again.activations;
  EXPECT_EQ(kept, again);
}

INSTANTIATE_TEST_SUITE_P(Recipes, KeptInputs,
                         ::testing::Values(KeptCase{"mxfp4-all", true},
                                           KeptCase{"mxfp4-sr-rht", true},
                                           KeptCase{"nvfp4-all", true}, KeptCase{"int8", true},
                                           KeptCase{"averis", true}, KeptCase{"averis-wide", true},
                                           KeptCase{"quartet", false},  // reads what forward read
                                           KeptCase{"bf16", false}, KeptCase{"fp8-delayed", false},
                                           KeptCase{"mixfp4", false}),
                         [](const auto& one) {
                           std::string name = one.param.recipe;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace ng
