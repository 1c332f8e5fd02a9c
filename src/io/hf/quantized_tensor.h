// A weight that a quantized folder stores as codes and scales, read row by row.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/hf/quantized_layout.h"
#include "io/safetensors.h"

namespace ng::io {

/// The tensor of a folder by its full name; null: there is none.
using FindEntry = std::function<const SafetensorsEntry*(const std::string& name)>;

/// Whether a tensor holds the codes of a weight of this layout.
[[nodiscard]] bool holds_codes(const SafetensorsEntry& entry, const QuantizedLayout& layout);

/// 2^(code - 127), of an E8M0 scale of a tensor. Throws Error for 255.
[[nodiscard]] float e8m0_scale(const SafetensorsEntry& entry, uint32_t code);

class QuantizedTensor {
 public:
  /// Of the tensor that holds its codes. Throws Error naming file and tensor where a scale is
  /// missing, has another dtype or shape, or is E8M0's 255.
  QuantizedTensor(const SafetensorsEntry& codes, const QuantizedLayout& layout,
                  const FindEntry& find);

  /// "P.weight"
  [[nodiscard]] const std::string& name() const { return name_; }
  /// (out, in)
  [[nodiscard]] const std::vector<int64_t>& shape() const { return shape_; }
  /// Names of the tensors beside its codes.
  [[nodiscard]] const std::vector<std::string>& parts() const { return parts_; }
  /// fl32(fl32(element · block scale) · tensor scale), `values` as many as a row has.
  void read(int64_t row, std::span<float> values) const;

 private:
  void read_scales(const SafetensorsEntry& entry, const QuantizedLayout& layout);
  void read_tensor_scale(const SafetensorsEntry& entry, bool divides);

  const SafetensorsEntry* codes_;
  std::string name_;
  std::vector<int64_t> shape_;
  std::vector<std::string> parts_;
  int bits_ = 8;
  std::vector<float> elements_;  ///< value of each code
  int64_t block_rows_ = 1, block_cols_ = 1, scale_cols_ = 1;
  std::vector<float> scales_;
  float tensor_scale_ = 1;
};

}  // namespace ng::io
