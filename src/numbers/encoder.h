// Quantizes a matrix panel by panel, so that a matrix larger than the memory, and a row of one,
// gets the same bits as one that lies in it.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "backend/cpu/quantize/quantize.h"
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

/// Rows [row, row + rows) × columns [col, col + cols) of a matrix.
struct Panel {
  int64_t row = 0;
  int64_t rows = 0;
  int64_t col = 0;
  int64_t cols = 0;

  [[nodiscard]] bool is_first() const { return row == 0 && col == 0; }
};

/// 1. Where needs_range(): note() every panel. 2. encode() every panel, in any order.
class NarrowEncoder {
 public:
  NarrowEncoder(cpu::Workspace& workspace, const EncodeJob& job);
  NarrowEncoder(const NarrowEncoder&) = delete;
  NarrowEncoder& operator=(const NarrowEncoder&) = delete;

  /// Of whole blocks, at most a few million values each with what fills blocks up: whole rows, or
  /// parts of rows too long for that. They tile the matrix, row by row; an empty matrix is one.
  [[nodiscard]] std::vector<Panel> panels() const;
  /// The scales depend on values of several panels.
  [[nodiscard]] bool needs_range() const { return range_ != Range::none; }

  void note(const Panel& panel, Rows<const float> values);
  /// `panel` is one of panels(). Overwrites `out`, whose memory is used again; its grid is that of
  /// the panel alone. Codes of at most 8 bits go to `bytes` instead, where there is one: the place
  /// of the panel's first.
  void encode(const Panel& panel, Rows<const float> values, NarrowMatrix& out,
              const ByteCodes& bytes = {});

 private:
  /// Whose values are noted: nobody's, those of the matrix, of each row, of each column.
  enum class Range : uint8_t { none, whole, rows, cols };

  void cut();
  [[nodiscard]] bool is_one_row() const;
  [[nodiscard]] int64_t rows_of_panels() const;
  [[nodiscard]] int64_t held_rows(int64_t rows) const;
  [[nodiscard]] Range range_of_scales() const;
  [[nodiscard]] std::span<const ValueRange> ranges_of(const Panel& panel) const;
  [[nodiscard]] bool is_folded(const Panel& panel) const;
  void encode_rows(const Panel& panel, Rows<const float> values, NarrowMatrix& out);
  void encode_folded(const Panel& panel, Rows<const float> values, NarrowMatrix& out);
  void encode_values(const Panel& panel, Rows<const float> values, const cpu::DrawGroups& groups,
                     NarrowMatrix& out, const ByteCodes& bytes = {});
  void encode_whole(const Panel& panel, Rows<const float> values, NarrowMatrix& out,
                    const ByteCodes& bytes);
  void prepare(const Operand& cast, Rows<const float> source, const cpu::DrawGroups& groups,
               OperandStats& counts);
  [[nodiscard]] Rows<const float> with_witness(std::span<const ValueRange> ranges,
                                               Rows<const float> values);

  cpu::Workspace& workspace_;
  EncodeJob job_;
  int64_t row_unit_ = 1;  // of a block or transform
  int64_t col_unit_ = 1;  // of a block or transform, whole groups of draws
  int64_t panel_rows_ = 1, panel_cols_ = 1;
  Range range_ = Range::none;
  std::vector<ValueRange> ranges_;
  const CodeTable& codes_;
  PackedOperand packed_;
  std::vector<std::byte> storage_;
  NarrowMatrix row_;             // one of a panel's parts of rows
  std::vector<float> folded_;    // a row, zeros up to whole rows of kFold
  std::vector<float> extended_;  // a panel, zeros up to whole blocks, and its witness
};

}  // namespace ng
