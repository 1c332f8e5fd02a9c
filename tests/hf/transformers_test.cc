// transformers must open the folders that we write. Needs a Python with transformers and torch:
// $NG_PYTHON, else python3.
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/files.h"
#include "base/program.h"
#include "io/hf/folder.h"
#include "io/hf/names.h"
#include "io/safetensors.h"
#include "tokenizer/byte_tokenizer.h"

namespace ng::io {
namespace {

/// A model with weights that BF16 holds exactly, and small, so that logits stay finite.
class Model {
 public:
  explicit Model(const ModelConfig& config) : config_(config), table_(parameter_table(config)) {
    int next = 0;
    for (const ParameterSpec& spec : table_) {
      memory_.emplace_back(static_cast<size_t>(spec.rows * spec.cols));
      for (float& value : memory_.back()) value = static_cast<float>(next++ % 255 - 127) / 1024.0f;
      rows_.push_back({memory_.back().data(), spec.rows, spec.cols, spec.cols});
    }
  }

  /// The folder, and in it what state_dict() must give.
  void write(const std::string& folder, const HfWriteOptions& options) const {
    const auto read = [this](size_t index, int64_t row, std::span<float> values) {
      std::copy_n(rows_[index].row(row), values.size(), values.begin());
    };
    write_hf_folder(folder, config_, read, options);
    std::vector<std::vector<float>> stored;
    std::vector<SafetensorsTensor> expected;
    stored.reserve(table_.size());
    for (size_t i = 0; i < table_.size(); ++i) {
      stored.push_back(table_[i].hf_transposed ? transposed(rows_[i]) : memory_[i]);
      expected.push_back({.name = table_[i].hf_name,
                          .dtype = "F32",
                          .shape = hf_shape(table_[i]),
                          .data = stored.back().data()});
    }
    write_safetensors(join_path(folder, "expected.safetensors"), expected);
  }

 private:
  static std::vector<float> transposed(const Rows<const float>& view) {
    std::vector<float> values;
    for (int64_t c = 0; c < view.cols; ++c) {
      for (int64_t r = 0; r < view.rows; ++r) values.push_back(view.row(r)[c]);
    }
    return values;
  }

  ModelConfig config_;
  std::vector<ParameterSpec> table_;
  std::vector<std::vector<float>> memory_;
  std::vector<Rows<const float>> rows_;
};

ModelConfig gpt2(bool bias, bool tied) {
  return {.architecture = Architecture::gpt2,
          .vocab = 256,
          .layers = 2,
          .heads = 3,
          .kv_heads = 3,
          .head_dim = 4,
          .width = 12,
          .ffn = 20,
          .context = 9,
          .tie_embeddings = tied,
          .attention_bias = bias,
          .mlp_bias = bias,
          .norm_bias = bias};
}

ModelConfig llama(bool bias, bool tied) {
  return {.architecture = Architecture::llama,
          .vocab = 256,
          .layers = 2,
          .heads = 4,
          .kv_heads = 2,
          .head_dim = 6,
          .width = 12,
          .ffn = 7,
          .context = 9,
          .tie_embeddings = tied,
          .attention_bias = bias,
          .mlp_bias = bias,
          .rope_theta = 500000.0f};
}

/// Of the same sizes.
ModelConfig as(Architecture architecture) {
  ModelConfig config = llama(false, false);
  config.architecture = architecture;
  config.attention_bias = architecture == Architecture::qwen2;
  config.rope_scaling = {.factor = 4, .original_context = 5};
  return config;
}

/// With a window in the layers that the list says, or in all.
ModelConfig with_window(ModelConfig config, std::vector<bool> layers) {
  config.windows = {.size = 3, .layers = std::move(layers)};
  return config;
}

TEST(Transformers, OpensWhatWeWrite) {
  const std::string folder = join_path(testing::TempDir(), "transformers_test");
  remove_all(folder);
  const ByteTokenizer tokenizer;
  const char* python = std::getenv("NG_PYTHON");
  std::vector<std::string> command = {
      python != nullptr ? python : "python3",
      std::string(NG_SOURCE_DIR) + "/tests/hf/open_with_transformers.py"};
  const auto add = [&](const char* name, const ModelConfig& config, const HfWriteOptions& options) {
    command.push_back(join_path(folder, name));
    Model(config).write(command.back(), options);
  };
  add("gpt2", gpt2(true, true), {.tokenizer = &tokenizer});
  add("gpt2-bare", gpt2(false, false), {.dtype = "BF16", .tokenizer = &tokenizer});
  add("llama", llama(false, true), {.dtype = "F16", .tokenizer = &tokenizer});
  add("llama3", as(Architecture::llama), {});
  add("mistral", as(Architecture::mistral), {});
  add("qwen2", as(Architecture::qwen2), {});
  add("qwen3", as(Architecture::qwen3), {});
  add("mistral-window", with_window(as(Architecture::mistral), {}), {});
  add("qwen3-windows", with_window(as(Architecture::qwen3), {true, false}), {});
  add("llama-sharded", llama(true, false), {.max_shard_bytes = 5000});
  const ProgramResult result = run_program(command, 1 << 20);
  remove_all(folder);
  if (!result.found || result.exit_code == 77) {
    GTEST_SKIP() << "needs a Python with transformers and torch in NG_PYTHON " << result.output;
  }
  EXPECT_EQ(result.exit_code, 0) << result.output;
}

}  // namespace
}  // namespace ng::io
