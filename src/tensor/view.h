// Views: a tensor is a pointer, a shape and a row stride. Nobody owns memory through a view.
#pragma once

#include <cstdint>
#include <span>
#include <type_traits>

#include "base/error.h"

namespace ng {

/// FP32 matrix, `rows` rows of `cols` values, consecutive rows `stride` values apart. Leading
/// dimensions of a tensor count as rows. The memory may lie on another device than the host.
template <class Value>
struct BasicView {
  Value* data = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;

  [[nodiscard]] int64_t size() const { return rows * cols; }
  [[nodiscard]] bool contiguous() const { return stride == cols || rows <= 1; }
  [[nodiscard]] Value* row(int64_t r) const { return data + r * stride; }

  /// Columns [first, first + count) of every row, e.g. the k part of a fused qkv.
  [[nodiscard]] BasicView columns(int64_t first, int64_t count) const {
    NG_CHECK(first >= 0 && count >= 0 && first + count <= cols, first, count, cols);
    return {data + first, rows, count, stride};
  }
  /// Rows [first, first + count).
  [[nodiscard]] BasicView slice(int64_t first, int64_t count) const {
    NG_CHECK(first >= 0 && count >= 0 && first + count <= rows, first, count, rows);
    return {data + first * stride, count, cols, stride};
  }
  // NOLINTNEXTLINE(google-explicit-constructor): a View is a ConstView
  operator BasicView<const Value>() const requires(!std::is_const_v<Value>) {
    return {data, rows, cols, stride};
  }
};

using View = BasicView<float>;
using ConstView = BasicView<const float>;

/// Token ids of a batch, row-major (sequences, length).
using TokenView = std::span<const int32_t>;

}  // namespace ng
