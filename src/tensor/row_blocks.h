// Rows of a matrix that belong together: the rows of a head, of one output, all of them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/error.h"

namespace ng {

/// Rows in blocks one after another. Sections differ in the height of their blocks, as the q, k and
/// v of a fused projection do.
struct RowBlocks {
  struct Section {
    int64_t rows = 0;
    int64_t block_rows = 1;  ///< divides rows
  };
  std::array<Section, 3> sections{};  ///< those without rows count for nothing

  [[nodiscard]] int64_t rows() const {
    int64_t sum = 0;
    for (const Section& s : sections) sum += s.rows;
    return sum;
  }
  [[nodiscard]] int64_t blocks() const {
    int64_t sum = 0;
    for (const Section& s : sections) sum += s.rows / s.block_rows;
    return sum;
  }
  /// The block that a row is of.
  [[nodiscard]] int64_t block_of(int64_t row) const {
    int64_t before = 0;
    for (const Section& s : sections) {
      if (row < s.rows) return before + row / s.block_rows;
      row -= s.rows;
      before += s.rows / s.block_rows;
    }
    NG_CHECK(false, row);
    return 0;
  }
  struct Range {
    int64_t first = 0, count = 0;
  };
  /// The rows of a block.
  [[nodiscard]] Range rows_of(int64_t block) const {
    int64_t first = 0;
    for (const Section& s : sections) {
      const int64_t blocks = s.rows / s.block_rows;
      if (block < blocks) return {first + block * s.block_rows, s.block_rows};
      block -= blocks;
      first += s.rows;
    }
    NG_CHECK(false, block);
    return {};
  }
};

}  // namespace ng
