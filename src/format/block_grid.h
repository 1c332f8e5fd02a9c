// Where the blocks of a matrix lie in it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/error.h"
#include "format/operand.h"

namespace ng {

/// Blocks of height × width, counted row by row; those on the right and the lower edge may be
/// smaller.
struct BlockGrid {
  int64_t rows = 0, cols = 0;     ///< of the matrix
  int64_t height = 1, width = 1;  ///< of a block

  /// The elements of a block.
  struct Part {
    int64_t row, row_end, col, col_end;
    [[nodiscard]] int64_t size() const { return (row_end - row) * (col_end - col); }
  };

  /// Blocks below and beside each other.
  [[nodiscard]] int64_t down() const { return (rows + height - 1) / height; }
  [[nodiscard]] int64_t across() const { return (cols + width - 1) / width; }

  /// The block below `i` others and right of `j`.
  [[nodiscard]] Part part(int64_t i, int64_t j) const {
    return {.row = i * height,
            .row_end = std::min((i + 1) * height, rows),
            .col = j * width,
            .col_end = std::min((j + 1) * width, cols)};
  }

  /// body(index of the block, its part)
  template <class Body>
  void for_each(const Body& body) const {
    size_t index = 0;
    for (int64_t i = 0; i < down(); ++i)
      for (int64_t j = 0; j < across(); ++j) body(index++, part(i, j));
  }
};

/// Those of a matrix that is not empty.
[[nodiscard]] inline BlockGrid block_grid(const Block& block, int64_t rows, int64_t cols) {
  NG_CHECK(rows > 0 && cols > 0, rows, cols);
  switch (block.kind) {
    case Block::Kind::tensor:
      return {.rows = rows, .cols = cols, .height = rows, .width = cols};
    case Block::Kind::row:
      return {.rows = rows, .cols = cols, .height = 1, .width = cols};
    default:
      return {.rows = rows, .cols = cols, .height = block.rows, .width = block.cols};
  }
}

}  // namespace ng
