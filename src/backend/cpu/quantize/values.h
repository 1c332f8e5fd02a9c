// Values as quantizer kernels read them: FP32, or BF16 that is widened in the registers.
#pragma once

#include <cstdint>

#include "math/bf16.h"

namespace ng::cpu {

/// Rows of values, `stride` values from one to the next. Owns nothing.
class TileValues {
 public:
  TileValues() = default;
  TileValues(const float* first, int64_t stride) : fp32_(first), stride_(stride) {}
  TileValues(const Bf16* first, int64_t stride) : bf16_(first), stride_(stride) {}

  [[nodiscard]] int64_t stride() const { return stride_; }
  [[nodiscard]] float operator()(int64_t row, int64_t col) const {
    const int64_t at = row * stride_ + col;
    return is_bf16() ? widened(bf16_[at]) : fp32_[at];
  }
  /// What lies from (row, col) on.
  [[nodiscard]] TileValues from(int64_t row, int64_t col) const {
    const int64_t at = row * stride_ + col;
    return is_bf16() ? TileValues(bf16_ + at, stride_) : TileValues(fp32_ + at, stride_);
  }

  /// The same from the first value on, other values from one row to the next.
  [[nodiscard]] TileValues with_stride(int64_t stride) const {
    return is_bf16() ? TileValues(bf16_, stride) : TileValues(fp32_, stride);
  }

  [[nodiscard]] bool is_bf16() const { return bf16_ != nullptr; }
  /// The first value, of what is_bf16 says; otherwise null.
  [[nodiscard]] const float* fp32() const { return fp32_; }
  [[nodiscard]] const Bf16* bf16() const { return bf16_; }

 private:
  const float* fp32_ = nullptr;
  const Bf16* bf16_ = nullptr;
  int64_t stride_ = 0;
};

}  // namespace ng::cpu
