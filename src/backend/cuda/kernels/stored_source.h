// Tensors of any element, with scales of blocks or without, as kernels read them.
#pragma once

#include "backend/cuda/kernels/codes.h"
#include "backend/cuda/kernels/element_cast.h"
#include "format/scale.h"
#include "tensor/view.h"

namespace ng::cuda {

/// Scales of blocks as they lie in the card's memory, row by row.
struct BlockScales {
  uint8_t* data = nullptr;  ///< null: there are none
  ScaleKind kind = ScaleKind::none;
  int64_t block_rows = 1, block_cols = 1;  ///< values that share one
  int64_t across = 0;

  [[nodiscard]] __device__ float value(int64_t i) const {
    if (kind == ScaleKind::e8m0) return e8m0_value(data[i]);
    if (kind == ScaleKind::e4m3) return decode_float(e4m3_grid(), data[i]);
    return reinterpret_cast<const float*>(data)[i];
  }
  [[nodiscard]] __device__ int64_t index(int64_t row, int64_t at) const {
    return quotient(row, block_rows) * across + quotient(at, block_cols);
  }

 private:
  /// Sizes of blocks are mostly powers of two, and a division is slow.
  [[nodiscard]] static __device__ int64_t quotient(int64_t n, int64_t size) {
    const bool is_power = (size & (size - 1)) == 0 && size >> 31 == 0;
    return is_power ? n >> high_bit(static_cast<uint32_t>(size)) : n / size;
  }
};

/// Values of a tensor of any element: fl32(fl32(element · scale of its block) · tensor scale).
struct StoredSource {
  CodeRows codes{};
  ElementCast element{};
  BlockScales scales{};
  const float* tensor = nullptr;  ///< the second level; null: 1

  [[nodiscard]] __device__ float scale_of(int64_t row, int64_t col) const {
    if (scales.data == nullptr) return 1.0f;
    const float scale = scales.value(scales.index(row, col));
    return tensor != nullptr ? scale * *tensor : scale;
  }
  [[nodiscard]] __device__ float operator()(int64_t row, int64_t col) const {
    float value = decode_element(element, codes(row, col));
    if (scales.data != nullptr) value *= scales.value(scales.index(row, col));
    return tensor != nullptr ? value * *tensor : value;
  }
};
/// Throws Unsupported for codes that are no elements, and for values in two parts.
void require_elements(const ConstView& x);
/// Throws as require_elements() does.
[[nodiscard]] StoredSource stored_source(const ConstView& x);

}  // namespace ng::cuda
