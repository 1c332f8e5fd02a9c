// Small models for the tests of model folders.
#pragma once

#include <string>
#include <vector>

#include "io/hf_folder.h"
#include "support/scratch_folder.h"

namespace ng::io {

/// Memory for all parameters of a model; rows lie apart so that strides matter.
class Parameters {
 public:
  explicit Parameters(const ModelConfig& config) {
    for (const ParameterSpec& spec : parameter_table(config)) {
      const int64_t stride = spec.cols + 3;
      memory_.emplace_back(static_cast<size_t>(spec.rows * stride), -7.0f);
      views_.push_back({memory_.back().data(), spec.rows, spec.cols, stride});
    }
  }
  /// Every value different, all of them exact in BF16 and F16 up to 256.
  void fill() {
    float next = 1.0f;
    for (const View& view : views_) {
      for (int64_t r = 0; r < view.rows; ++r) {
        for (int64_t c = 0; c < view.cols; ++c) {
          view.row(r)[c] = next;
          next = next == 256.0f ? -255.0f : next + 1.0f;
        }
      }
    }
  }
  [[nodiscard]] std::span<const View> views() const { return views_; }
  [[nodiscard]] std::vector<ConstView> const_views() const {
    return {views_.begin(), views_.end()};
  }

  friend bool operator==(const Parameters& a, const Parameters& b) {
    return a.memory_ == b.memory_;
  }

 private:
  std::vector<std::vector<float>> memory_;
  std::vector<View> views_;
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
          .gelu = Gelu::erf};
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

/// Where each test has its model folder.
using HfFolder = ScratchFolder;

}  // namespace ng::io
