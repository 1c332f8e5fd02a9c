// Values of one C++ type in rows: what the loops of a backend, and code on the host, walk over.
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/error.h"

namespace ng {

/// `rows` rows of `cols` values, consecutive rows `stride` values apart. Owns nothing.
template <class Value>
struct Rows {
  Value* data = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;

  [[nodiscard]] int64_t size() const { return rows * cols; }
  [[nodiscard]] bool contiguous() const { return stride == cols || rows <= 1; }
  [[nodiscard]] Value* row(int64_t r) const { return data + r * stride; }

  /// Columns [first, first + count) of every row.
  [[nodiscard]] Rows columns(int64_t first, int64_t count) const {
    NG_CHECK(first >= 0 && count >= 0 && first + count <= cols, first, count, cols);
    return {data + first, rows, count, stride};
  }
  /// Rows [first, first + count).
  [[nodiscard]] Rows slice(int64_t first, int64_t count) const {
    NG_CHECK(first >= 0 && count >= 0 && first + count <= rows, first, count, rows);
    return {data + first * stride, count, cols, stride};
  }
  // NOLINTNEXTLINE(google-explicit-constructor): what can be written can be read
  operator Rows<const Value>() const requires(!std::is_const_v<Value>) {
    return {data, rows, cols, stride};
  }
};

}  // namespace ng
