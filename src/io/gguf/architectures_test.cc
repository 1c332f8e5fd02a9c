// Each architecture as a GGUF file: its names and keys, what is permuted, and back.
#include <gtest/gtest.h>

#include "io/gguf/export.h"
#include "io/gguf/model.h"
#include "io/gguf/rope.h"
#include "io/model_files.h"
#include "support/hf_models.h"
#include "support/scratch_folder.h"

namespace ng {
namespace {

class GgufArchitectures : public ScratchFolder {
 protected:
  void SetUp() override {
    ScratchFolder::SetUp();
    make_folders(folder_);
  }
  /// The GGUF file of a model of these sizes, as F32.
  [[nodiscard]] std::string exported(const ModelConfig& config,
                                     const std::string& type = "f32") const {
    io::Parameters parameters(config);
    parameters.fill();
    io::write_hf_folder(in("model"), config, parameters.reader());
    (void)export_gguf({.model = in("model"),
                       .out = in("a.gguf"),
                       .name = "a",
                       .type = type,
                       .keep = {},
                       .trained = {},
                       .threads = {}});
    return in("a.gguf");
  }
  [[nodiscard]] std::string refused(const ModelConfig& config, const std::string& type) const {
    const std::string text = error_of([&] { (void)exported(config, type); });
    EXPECT_EQ(list_folder(folder_), (std::vector<std::string>{"model"})) << text;
    return text.substr(in("model: ").size());
  }
};

ModelConfig tiny(Architecture architecture) {
  ModelConfig config = io::tiny_llama();
  config.architecture = architecture;
  config.mlp_bias = false;
  config.attention_bias = architecture == Architecture::qwen2;
  if (architecture == Architecture::qwen2) config.head_dim = 2;
  return config;
}

ModelConfig scaled() {
  ModelConfig config = tiny(Architecture::llama);
  config.tie_embeddings = true;
  config.rope_theta = 100;
  config.head_dim = 8;
  config.rope_scaling = {.factor = 8, .original_context = 64};
  return config;
}

/// Every architecture that is no GPT-2, and what llama.cpp calls it.
std::vector<std::pair<ModelConfig, std::string>> models() {
  ModelConfig tied = tiny(Architecture::qwen3);
  tied.tie_embeddings = true;
  return {{io::tiny_llama(), "llama"},
          {tiny(Architecture::mistral), "llama"},
          {scaled(), "llama"},
          {tiny(Architecture::qwen2), "qwen2"},
          {tiny(Architecture::qwen3), "qwen3"},
          {tied, "qwen3"}};
}

TEST_F(GgufArchitectures, ReadBackAsTheyWere) {
  for (const auto& [config, name] : models()) {
    io::Parameters want(config);
    want.fill();
    const std::string path = exported(config);
    const io::Gguf file(path);
    EXPECT_EQ(file.text("general.architecture"), name);
    EXPECT_EQ(file.integer(name + ".attention.key_length", 1, 100), config.head_dim);
    EXPECT_EQ(file.find("output.weight") == nullptr, config.tie_embeddings);
    ModelConfig expected = config;  // llama.cpp has no Mistral
    if (name == "llama") expected.architecture = Architecture::llama;
    const ModelConfig have = io::read_model_config(path);
    EXPECT_EQ(have, expected);
    io::Parameters read(have);
    io::copy_parameters(have, io::open_model_weights(path, have), read.writer());
    EXPECT_TRUE(read == want) << name;
  }
}

/// Heads of six: rows 0, 3, 1, 4, 2, 5 of each.
TEST_F(GgufArchitectures, BiasesArePermutedWithTheirRows) {
  const ModelConfig config = io::tiny_llama();
  const io::Gguf file(exported(config));
  const auto table = parameter_table(config);
  const io::ParameterReader read = io::open_model_weights(in("model"), config);
  for (size_t i = 0; i < table.size(); ++i) {
    if (table[i].name != "blocks.0.attn.k.bias") continue;
    std::vector<float> bias(static_cast<size_t>(table[i].cols));
    read(i, 0, bias);
    const std::vector<float> stored = io::to_floats(*file.find("blk.0.attn_k.bias"));
    const std::vector<size_t> order = {0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11};
    ASSERT_EQ(stored.size(), order.size());
    for (size_t j = 0; j < order.size(); ++j) EXPECT_EQ(stored[j], bias[order[j]]) << j;
  }
}

TEST_F(GgufArchitectures, QwenIsNotPermuted) {
  const ModelConfig config = tiny(Architecture::qwen3);
  const io::Gguf file(exported(config));
  const io::Safetensors folder(in("model/model.safetensors"));
  const auto expect_same = [&](const std::string& gguf, const std::string& hf) {
    ASSERT_NE(file.find(gguf), nullptr) << gguf;
    EXPECT_EQ(io::to_floats(*file.find(gguf)), io::to_floats(folder.at(hf))) << gguf;
  };
  expect_same("blk.1.attn_q.weight", "model.layers.1.self_attn.q_proj.weight");
  expect_same("blk.1.attn_q_norm.weight", "model.layers.1.self_attn.q_norm.weight");
  expect_same("blk.1.attn_k_norm.weight", "model.layers.1.self_attn.k_norm.weight");
}

TEST_F(GgufArchitectures, FactorsOfFrequenciesAreATensor) {
  const io::Gguf file(exported(scaled()));
  ASSERT_NE(file.find(io::kGgufRopeFactors), nullptr);
  EXPECT_EQ(io::to_floats(*file.find(io::kGgufRopeFactors)), io::gguf_rope_factors(scaled()));
  EXPECT_EQ(io::Gguf(exported(tiny(Architecture::llama))).find(io::kGgufRopeFactors), nullptr);
}

TEST_F(GgufArchitectures, RefusesWhatLlamaCppHasNothingFor) {
  ModelConfig config = tiny(Architecture::qwen3);
  config.rope_scaling = scaled().rope_scaling;
  EXPECT_EQ(refused(config, "f32"),
            "llama.cpp has nothing for scaled rotary frequencies of a qwen3: --to hf");
  config = tiny(Architecture::qwen3);
  config.attention_bias = true;
  EXPECT_EQ(refused(config, "f32"),
            "llama.cpp has nothing for the attention's biases of a qwen3: --to hf");
  config = tiny(Architecture::qwen2);
  config.head_dim = 4;
  EXPECT_EQ(refused(config, "f32"),
            "llama.cpp has nothing for 4 heads of 4 beside a width of 8 of a qwen2: --to hf");
  config = tiny(Architecture::mistral);
  config.windows.size = 3;
  EXPECT_EQ(refused(config, "f32"),
            "llama.cpp has nothing for attention windows (3 tokens) of a mistral: --to hf, or a "
            "context of 3, within which the model computes the same");
  EXPECT_EQ(refused(tiny(Architecture::qwen2), "nvfp4"),
            "\"blk.0.attn_q.weight\": llama.cpp ignores the scales of NVFP4 tensors of qwen2, "
            "without a word: mxfp4, q8_0 or bf16");
}

}  // namespace
}  // namespace ng
