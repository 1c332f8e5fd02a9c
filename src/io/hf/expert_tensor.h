// Weights of gpt-oss's experts: MXFP4 in two tensors for all experts of a layer. [interop.md 2;
// transformers integrations/mxfp4.py, convert_moe_packed_tensors]
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "io/hf/quantized_tensor.h"
#include "io/safetensors.h"

namespace ng::io {

/// Whether a tensor holds the codes of such weights: P_blocks.
[[nodiscard]] bool holds_expert_codes(const SafetensorsEntry& entry);

/// P_blocks U8 (experts, out, in/32, 16), the lower four bits first, P_scales U8 (experts, out,
/// in/32): E2M1 · 2^(c - 127), for each expert transposed.
class ExpertTensor {
 public:
  /// Of P_blocks. Throws Error naming file and tensor where the scales are missing, or either has
  /// another dtype or shape.
  ExpertTensor(const SafetensorsEntry& blocks, const FindEntry& find);

  /// The tensor of scales.
  [[nodiscard]] const std::string& scales() const { return scales_.name; }
  /// "P" (experts, in, out), whose values FloatReader makes.
  [[nodiscard]] SafetensorsEntry entry() const;
  /// Values of one expert, (in, out). Throws Error for a scale of 255.
  void read(int64_t expert, std::span<float> values) const;

 private:
  [[nodiscard]] int64_t expert_size() const { return in_ * out_; }

  SafetensorsEntry blocks_, scales_;
  std::string name_;
  int64_t experts_ = 0, out_ = 0, in_ = 0;
  std::vector<float> elements_;  ///< value of each code
};

}  // namespace ng::io
