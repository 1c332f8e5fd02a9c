// The tensors of a model of any architecture, as the values that they stand for.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace ng::io {

using TakeValues = std::function<void(std::span<const float>)>;

struct DecodedTensor {
  std::string name;
  std::vector<int64_t> shape;
  /// Hands over all values in row-major order, some at a time. Throws Error for what is damaged.
  std::function<void(const TakeValues& take)> read;
};

struct DecodedModel {
  std::vector<DecodedTensor> tensors;
  std::vector<std::string> notes;  ///< what the user should know
};

/// Of a .gguf file: every tensor under its own name, NVFP4 times its `.scale`. Of a folder or a
/// .safetensors file: codes and scales as the weights that they stand for, and all other tensors
/// but scales of activations and of the KV cache, which a note names. Throws Error naming file and
/// tensor for what is damaged, and for codes whose scales are not understood.
[[nodiscard]] DecodedModel decoded_tensors(const std::string& in);

}  // namespace ng::io
