#include "model/tensor_parallel.h"

#include <gtest/gtest.h>

#include <map>

namespace ng {
namespace {

using Shape = std::pair<int64_t, int64_t>;

std::map<std::string, Shape> shapes(const ModelConfig& config, int64_t ranks) {
  std::map<std::string, Shape> all;
  for (const ParameterSpec& spec : tensor_parallel_parts(parameter_table(config), ranks))
    all[spec.name] = {spec.rows, spec.cols};
  return all;
}

TEST(TensorParallel, DividesOutputsOfTheFirstAndInputsOfTheSecondLayer) {
  const std::map<std::string, Shape> gpt2 = shapes(model_preset("gpt2-124m"), 4);
  EXPECT_EQ(gpt2.at("embed.weight"), Shape(50257, 768)) << "works on a slice of the tokens";
  EXPECT_EQ(gpt2.at("pos.weight"), Shape(1024, 768));
  EXPECT_EQ(gpt2.at("blocks.0.attn.qkv.weight"), Shape(576, 768));
  EXPECT_EQ(gpt2.at("blocks.0.attn.qkv.bias"), Shape(1, 576));
  EXPECT_EQ(gpt2.at("blocks.0.attn.out.weight"), Shape(768, 192));
  EXPECT_EQ(gpt2.at("blocks.0.attn.out.bias"), Shape(1, 768));
  EXPECT_EQ(gpt2.at("blocks.11.mlp.up.weight"), Shape(768, 768));
  EXPECT_EQ(gpt2.at("blocks.11.mlp.down.weight"), Shape(768, 768));
  EXPECT_EQ(gpt2.at("blocks.3.norm1.weight"), Shape(1, 768));
  const std::map<std::string, Shape> llama = shapes(model_preset("llama-134m"), 2);
  EXPECT_EQ(llama.at("blocks.0.attn.q.weight"), Shape(384, 768));
  EXPECT_EQ(llama.at("blocks.0.mlp.gate.weight"), Shape(1024, 768));
  EXPECT_EQ(llama.at("blocks.0.mlp.down.weight"), Shape(768, 1024));
  EXPECT_EQ(llama.at("head.weight"), Shape(32000, 768));
}

TEST(TensorParallel, PartsOfOneLayerAreThoseOfQueriesKeysAndValues) {
  const auto specs = tensor_parallel_parts(parameter_table(model_preset("gpt2-124m")), 4, 1);
  for (const ParameterSpec& spec : specs) {
    if (spec.name != "blocks.0.attn.qkv.weight") continue;
    std::vector<int64_t> firsts;
    for (const CutPiece& at : pieces_of(spec.cut, spec.rows, spec.cols)) {
      EXPECT_EQ(at.rows, 192);
      EXPECT_EQ(at.cols, 768);
      firsts.push_back(at.whole_row);
    }
    EXPECT_EQ(firsts, (std::vector<int64_t>{192, 768 + 192, 2 * 768 + 192}));
    return;
  }
  ADD_FAILURE() << "no such parameter";
}

TEST(TensorParallel, OneRankHasEverything) {
  const ModelConfig config = model_preset("gpt2-124m");
  const std::map<std::string, Shape> all = shapes(config, 1);
  for (const ParameterSpec& spec : parameter_table(config))
    EXPECT_EQ(all.at(spec.name), Shape(spec.rows, spec.cols)) << spec.name;
}

TEST(TensorParallel, RefusesWhatDoesNotDivide) {
  const auto problem = [](const ModelConfig& config, int64_t ranks) -> std::string {
    try {
      require_tensor_parallel(config, ranks, "--tensor");
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  ModelConfig config = model_preset("llama-134m");  // 12 heads, feed-forward 2,048
  EXPECT_EQ(problem(config, 4), "");
  EXPECT_EQ(problem(config, 8), "--tensor: 8 ranks for 12 heads: a divisor of them");
  EXPECT_EQ(problem(config, 3),
            "--tensor: 3 ranks for 2048 outputs of the feed-forward layer: a divisor of them");
  config.kv_heads = 2;
  EXPECT_EQ(problem(config, 4),
            "--tensor: 4 ranks for 2 heads of keys and values: a divisor of them");
}

}  // namespace
}  // namespace ng
