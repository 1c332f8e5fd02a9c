// Small models for the tests of model folders.
#pragma once

#include <algorithm>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "io/hf/folder.h"
#include "io/model_files.h"
#include "support/scratch_folder.h"
#include "tensor/rows.h"

namespace ng::io {

/// All parameters of a model, to be written and read by rows.
class Parameters {
 public:
  explicit Parameters(const ModelConfig& config) {
    for (const ParameterSpec& spec : parameter_table(config)) {
      memory_.emplace_back(static_cast<size_t>(spec.rows * spec.cols), -7.0f);
      rows_.push_back({memory_.back().data(), spec.rows, spec.cols, spec.cols});
    }
  }
  /// Every value different, all of them exact in BF16 and F16 up to 256.
  void fill() {
    float next = 1.0f;
    for (std::vector<float>& values : memory_)
      for (float& value : values) {
        value = next;
        next = next == 256.0f ? -255.0f : next + 1.0f;
      }
  }
  [[nodiscard]] std::span<const Rows<float>> rows() const { return rows_; }
  [[nodiscard]] ParameterWriter writer() {
    return [this](size_t index, int64_t row, std::span<const float> values) {
      NG_CHECK(std::ssize(values) == rows_.at(index).cols, index, values.size());
      std::copy(values.begin(), values.end(), rows_[index].row(row));
    };
  }
  [[nodiscard]] ParameterReader reader() const {
    return [this](size_t index, int64_t row, std::span<float> values) {
      NG_CHECK(std::ssize(values) == rows_.at(index).cols, index, values.size());
      std::copy_n(rows_[index].row(row), values.size(), values.begin());
    };
  }

  friend bool operator==(const Parameters& a, const Parameters& b) {
    return a.memory_ == b.memory_;
  }

 private:
  std::deque<std::vector<float>> memory_;
  std::vector<Rows<float>> rows_;
};

inline ModelConfig tiny_gpt2(bool bias) {
  return {.architecture = Architecture::gpt2,
          .vocab = 11,
          .layers = 2,
          .heads = 3,
          .kv_heads = 3,
          .head_dim = 2,
          .width = 6,
          .ffn = 19,
          .context = 5,
          .tie_embeddings = true,
          .attention_bias = bias,
          .mlp_bias = bias,
          .norm_bias = bias,
          .gelu = GeluKind::erf};
}

inline ModelConfig tiny_llama() {
  return {.architecture = Architecture::llama,
          .vocab = 11,
          .layers = 2,
          .heads = 4,
          .kv_heads = 2,
          .head_dim = 6,
          .width = 8,
          .ffn = 5,
          .context = 7,
          .tie_embeddings = false,
          .attention_bias = true,
          .mlp_bias = true,
          .norm_eps = 3e-6f,
          .rope_theta = 500000.0f};
}

/// All parameters of a model, a folder or a file, one after the other.
inline std::vector<float> all_values(const std::string& model) {
  const ModelConfig config = read_model_config(model);
  std::vector<float> values;
  copy_parameters(config, open_model_weights(model, config),
                  [&](size_t, int64_t, std::span<const float> row) {
                    values.insert(values.end(), row.begin(), row.end());
                  });
  return values;
}

/// Where each test has its model folder.
using HfFolder = ScratchFolder;

}  // namespace ng::io
