// Quantizes a matrix panel by panel (ranges of its rows), so that a matrix larger than the memory
// gets the same bits as one that lies in it.
#pragma once

#include <cstddef>
#include <vector>

#include "backend/cpu/workspace.h"
#include "numbers/narrow_matrix.h"
#include "numbers/unpack.h"
#include "numbers/value_range.h"

namespace ng {

/// A matrix and its cast, before any value is known.
struct EncodeJob {
  Operand cast;
  QuantizeOptions options;
  int64_t rows = 0;
  int64_t cols = 0;
};

/// 1. Where needs_range(): note() every panel. 2. encode() every panel, in any order.
class NarrowEncoder {
 public:
  NarrowEncoder(cpu::Workspace& workspace, const EncodeJob& job);
  NarrowEncoder(const NarrowEncoder&) = delete;
  NarrowEncoder& operator=(const NarrowEncoder&) = delete;

  /// Panels begin at multiples of this: a few million values, whole blocks.
  [[nodiscard]] int64_t panel_rows() const { return panel_rows_; }
  /// The scales depend on values of several panels.
  [[nodiscard]] bool needs_range() const { return needs_range_; }

  void note(ConstView panel);
  /// Rows [first_row, first_row + panel.rows) of the matrix: panel_rows() of them, or the last.
  /// Overwrites `out`, whose memory is used again; its grid is that of the panel alone.
  void encode(int64_t first_row, ConstView panel, NarrowMatrix& out);

 private:
  [[nodiscard]] bool has_column_ranges() const;
  void encode_operand(int64_t first_row, ConstView panel, NarrowMatrix& out);
  void prepare(ConstView source, int64_t first_row, OperandStats& counts);
  void make_witness();
  [[nodiscard]] ConstView with_witness(ConstView panel);

  cpu::Workspace& workspace_;
  EncodeJob job_;
  int64_t unit_ = 1;  // rows of a block of the matrix
  int64_t panel_rows_ = 1;
  bool needs_range_ = false;
  std::vector<ValueRange> ranges_;  // of the whole matrix (1), or of each column
  CodeTable codes_;
  PackedOperand packed_;
  std::vector<std::byte> storage_;
  std::vector<float> witness_;   // a row; empty: not made since the last note()
  std::vector<float> extended_;  // a panel, zeros up to whole blocks, and the witness
};

}  // namespace ng
