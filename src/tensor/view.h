// Views: where a tensor's values lie, as what they are stored, its shape, and its scales. Nobody
// owns memory through a view. The memory may lie on another device than the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <type_traits>

#include "base/error.h"
#include "format/operand.h"
#include "math/bf16.h"
#include "tensor/rows.h"

namespace ng {

/// The row of the format table that a C++ type stands for.
template <class Value>
[[nodiscard]] const ElementFormat& element_of() {
  using Plain = std::remove_const_t<Value>;
  static_assert(std::is_same_v<Plain, float> || std::is_same_v<Plain, Bf16>);
  return std::is_same_v<Plain, float> ? fp32_format() : bf16_format();
}

/// Bytes of `values` elements side by side: codes are packed without gaps.
[[nodiscard]] inline size_t bytes_of(const ElementFormat& element, int64_t values) {
  return (static_cast<size_t>(values) * static_cast<size_t>(element.bits) + 7) / 8;
}

/// Elements from one row of `cols` to the next where nothing lies between but what is left of a
/// byte.
[[nodiscard]] inline int64_t tight_stride(const ElementFormat& element, int64_t cols) {
  const int64_t whole = 8 / std::gcd<int64_t>(8, element.bits);  // elements that fill bytes
  return (cols + whole - 1) / whole * whole;
}

/// Scales of the blocks of a tensor, row by row without gaps: value = element · scale [· tensor].
template <class Byte>
struct BasicScales {
  Byte* data = nullptr;                    ///< null: the elements are the values
  const ElementFormat* element = nullptr;  ///< fp32, e8m0 or ue4m3
  Block block;                             ///< that share one
  using Level = std::conditional_t<std::is_const_v<Byte>, const float, float>;
  Level* tensor = nullptr;  ///< [1], a second level for all; null: 1
  /// What elements stand for before they are scaled; expanded: by a power and around a center of
  /// each block. [format/dynamic_map.h, format/expansion.h]
  Coding coding = Coding::elements;
  Level *power = nullptr, *center = nullptr;
};
using Scales = BasicScales<std::byte>;
using ConstScales = BasicScales<const std::byte>;

/// A matrix of `rows` rows of `cols` elements, consecutive rows `stride` elements apart; leading
/// dimensions of a tensor count as rows. Elements of less than a byte lie packed, the first in the
/// lowest bits; rows and parts of them begin with a byte.
template <class Byte>
struct BasicView {
  Byte* data = nullptr;
  const ElementFormat* element = nullptr;  ///< null only where there are no rows
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;
  BasicScales<Byte> scales{};
  Byte* low = nullptr;  ///< what rounding to the elements lost, laid out as these: added to them

  static constexpr bool kConst = std::is_const_v<Byte>;
  template <class Value>
  using Of = std::conditional_t<kConst, const Value, Value>;

  BasicView() = default;
  BasicView(Byte* memory, const ElementFormat& format, int64_t row_count, int64_t col_count,
            int64_t row_stride)
      : data(memory), element(&format), rows(row_count), cols(col_count), stride(row_stride) {}
  /// Values of a C++ type.
  template <class Value>
  requires(std::is_same_v<Of<std::remove_const_t<Value>>, Value> || kConst)
      BasicView(Value* values, int64_t row_count, int64_t col_count, int64_t row_stride)
      : BasicView(reinterpret_cast<Byte*>(values), element_of<Value>(), row_count, col_count,
                  row_stride) {}
  template <class Value>
  requires(std::is_same_v<Of<std::remove_const_t<Value>>, Value> || kConst)
      // NOLINTNEXTLINE(google-explicit-constructor): rows of values are a view
      BasicView(const Rows<Value>& values)
      : BasicView(values.data, values.rows, values.cols, values.stride) {}
  template <class Other>  // a template, so that it is nobody's copy constructor
  requires(kConst&& std::is_same_v<Other, std::byte>)
      // NOLINTNEXTLINE(google-explicit-constructor): what can be written can be read
      BasicView(const BasicView<Other>& other)
      : data(other.data),
        element(other.element),
        rows(other.rows),
        cols(other.cols),
        stride(other.stride),
        scales{other.scales.data,   other.scales.element, other.scales.block, other.scales.tensor,
               other.scales.coding, other.scales.power,   other.scales.center},
        low(other.low) {}

  [[nodiscard]] int64_t size() const { return rows * cols; }
  [[nodiscard]] bool contiguous() const { return stride == cols || rows <= 1; }
  [[nodiscard]] bool is(const ElementFormat& format) const { return element == &format; }
  [[nodiscard]] bool has_scales() const { return scales.data != nullptr; }
  /// Elements are the values.
  [[nodiscard]] bool is_plain() const { return !has_scales() && low == nullptr; }
  /// Which of the scales is that of the element at (row, col).
  [[nodiscard]] int64_t scale_index(int64_t row, int64_t col) const {
    const Block& block = scales.block;
    if (block.kind == Block::Kind::tensor) return 0;
    if (block.kind == Block::Kind::row) return row;
    return row / block.rows * ((cols + block.cols - 1) / block.cols) + col / block.cols;
  }
  /// Bytes from the first element to the last, gaps between rows included.
  [[nodiscard]] size_t bytes() const {
    return rows == 0 ? 0 : bytes_of(*element, (rows - 1) * stride + cols);
  }

  /// The values of a tensor that is stored as a C++ type.
  template <class Value>
  [[nodiscard]] Rows<Of<Value>> as() const {
    if (rows == 0) return {};
    NG_CHECK(element == &element_of<Value>() && is_plain(), element->name, rows, cols);
    return {reinterpret_cast<Of<Value>*>(data), rows, cols, stride};
  }

  /// `row_count` × `col_count` elements from (row, col) on. Only of plain tensors.
  [[nodiscard]] BasicView part(int64_t row, int64_t row_count, int64_t col,
                               int64_t col_count) const {
    NG_CHECK(row >= 0 && row_count >= 0 && row + row_count <= rows, row, row_count, rows);
    NG_CHECK(col >= 0 && col_count >= 0 && col + col_count <= cols, col, col_count, cols);
    if (element == nullptr) return {};
    const int64_t bits = (row * stride + col) * element->bits;
    NG_CHECK(bits % 8 == 0 && is_plain(), element->name, row, col);
    return {data + bits / 8, *element, row_count, col_count, stride};
  }
  /// Columns [first, first + count) of every row, e.g. the k part of a fused qkv.
  [[nodiscard]] BasicView columns(int64_t first, int64_t count) const {
    return part(0, rows, first, count);
  }
  /// Rows [first, first + count).
  [[nodiscard]] BasicView slice(int64_t first, int64_t count) const {
    return part(first, count, 0, cols);
  }
};

using View = BasicView<std::byte>;
using ConstView = BasicView<const std::byte>;

/// The low parts of a tensor in two parts, by themselves.
template <class Byte>
[[nodiscard]] BasicView<Byte> low_part(const BasicView<Byte>& x) {
  return {x.low, *x.element, x.rows, x.cols, x.stride};
}

/// Both have the same shape.
[[nodiscard]] inline bool same_shape(const ConstView& a, const ConstView& b) {
  return a.rows == b.rows && a.cols == b.cols;
}

/// Token ids of a batch, row-major (sequences, length), in backend memory.
using TokenView = std::span<const int32_t>;

}  // namespace ng
