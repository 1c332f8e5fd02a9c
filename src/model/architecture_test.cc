#include "model/architecture.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "model/weights.h"
#include "recipe/layer_names.h"

namespace ng {
namespace {

/// Of the matrices of block 0, in the order of the table.
std::vector<std::string> matrices_of_a_block(Architecture architecture) {
  ModelConfig config;
  config.architecture = architecture;
  config.layers = 1;
  std::vector<std::string> names;
  for (const ParameterSpec& parameter : parameter_table(config))
    if (!parameter.is_vector && parameter.name.starts_with("blocks.0."))
      names.push_back(parameter.name);
  return names;
}

TEST(Architecture, LinearLayersAreThoseOfItsParameterTable) {
  for (const std::string_view architecture : architecture_names()) {
    const ArchitectureParts& parts = *find_architecture(architecture);
    std::vector<std::string> names;
    for (const std::string_view part : linears_of_block(parts))
      names.push_back(layers::weight_of(layers::in_block(0, part)));
    EXPECT_EQ(names, matrices_of_a_block(parts.architecture)) << architecture;
  }
}

TEST(Architecture, LayersOfRecipesAreMatricesAndTheHead) {
  ModelConfig config = model_preset("gpt2-124m");
  config.layers = 1;
  const ModelLayers layers = layers_of(config);
  EXPECT_EQ(layers.depth, 1);
  EXPECT_EQ(layers.names,
            (std::vector<std::string>{"embed", "pos", "blocks.0.attn.qkv", "blocks.0.attn.out",
                                      "blocks.0.mlp.up", "blocks.0.mlp.down", "head"}));
  config = model_preset("llama-134m");
  EXPECT_FALSE(config.tie_embeddings);
  const ModelLayers untied = layers_of(config);
  EXPECT_EQ(std::count(untied.names.begin(), untied.names.end(), "head"), 1);
}

std::vector<std::string> vectors_of_attention(Architecture architecture) {
  const ModelConfig config{.architecture = architecture,
                           .layers = 1,
                           .heads = 4,
                           .kv_heads = 2,
                           .head_dim = 6,
                           .width = 8,
                           .attention_bias = true};
  std::vector<std::string> names;
  for (const ParameterSpec& p : parameter_table(config))
    if (p.is_vector && p.name.starts_with("blocks.0.attn."))
      names.push_back(fmt::format("{} {} {}", p.name.substr(14), p.hf_name.substr(25), p.cols));
  return names;
}

TEST(Architecture, FamiliesOfLlamaDifferInBiasesAndNorms) {
  const std::vector<std::string> qkv = {"q.bias q_proj.bias 24", "k.bias k_proj.bias 12",
                                        "v.bias v_proj.bias 12"};
  EXPECT_EQ(vectors_of_attention(Architecture::qwen2), qkv);
  std::vector<std::string> all = qkv;
  all.push_back("out.bias o_proj.bias 8");
  EXPECT_EQ(vectors_of_attention(Architecture::llama), all);
  all.insert(all.begin() + 3, {"q_norm.weight q_norm.weight 6", "k_norm.weight k_norm.weight 6"});
  EXPECT_EQ(vectors_of_attention(Architecture::qwen3), all);
}

std::string refusal(const ModelConfig& config) {
  try {
    validate(config, "m");
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Architecture, BiasesThatItNeverOrAlwaysHasAreNoChoice) {
  ModelConfig config = model_preset("llama-134m");
  config.architecture = Architecture::qwen2;
  EXPECT_EQ(refusal(config), "m: attention_bias: false: true, as qwen2 always has");
  config.attention_bias = true;
  EXPECT_EQ(refusal(config), "accepted");
  config.architecture = Architecture::mistral;
  EXPECT_EQ(refusal(config), "m: attention_bias: true: false, as mistral always has");
  config.architecture = Architecture::qwen3;
  config.mlp_bias = true;
  EXPECT_EQ(refusal(config), "m: mlp_bias: true: false, as qwen3 always has");
}

// Recipes are tried on the layers that models have, and on no others.
TEST(Architecture, TogetherHaveAllLinearLayers) {
  std::set<std::string_view> names;
  for (const std::string_view architecture : architecture_names())
    for (const std::string_view part : linears_of_block(*find_architecture(architecture)))
      names.insert(part);
  EXPECT_EQ(names, std::set<std::string_view>(layers::kLinearsOfBlocks.begin(),
                                              layers::kLinearsOfBlocks.end()));
}

}  // namespace
}  // namespace ng
