// Which part of a matrix one of several ranks has that divide it among them.
#pragma once

#include <cstdint>
#include <vector>

namespace ng {

/// Rows or columns of a whole in `parts` equal parts. What is cut may be made of `bands` of equal
/// size (q, k and v of one projection): a part has its share of each, one behind the other.
struct Cut {
  enum class Axis : uint8_t { none, rows, cols };
  Axis axis = Axis::none;
  int bands = 1;
  int part = 0, parts = 1;

  [[nodiscard]] explicit operator bool() const { return axis != Axis::none; }
  /// Of the whole, from that of the part.
  [[nodiscard]] int64_t whole_rows(int64_t rows) const {
    return axis == Axis::rows ? rows * parts : rows;
  }
  [[nodiscard]] int64_t whole_cols(int64_t cols) const {
    return axis == Axis::cols ? cols * parts : cols;
  }
  friend bool operator==(const Cut&, const Cut&) = default;
};

/// Rows and columns of a part that lie side by side in the whole, too.
struct CutPiece {
  int64_t row = 0, col = 0, rows = 0, cols = 0;  ///< in the part
  int64_t whole_row = 0, whole_col = 0;
};

/// All of a part of rows × cols, band by band; `bands` divides what is cut.
[[nodiscard]] inline std::vector<CutPiece> pieces_of(const Cut& cut, int64_t rows, int64_t cols) {
  if (!cut) return {{.rows = rows, .cols = cols}};
  const bool by_rows = cut.axis == Cut::Axis::rows;
  const int64_t band = (by_rows ? rows : cols) / cut.bands;
  std::vector<CutPiece> pieces;
  for (int64_t b = 0; b < cut.bands; ++b) {
    const int64_t at = b * band, whole = (b * cut.parts + cut.part) * band;
    if (by_rows)
      pieces.push_back({.row = at, .rows = band, .cols = cols, .whole_row = whole});
    else
      pieces.push_back({.col = at, .rows = rows, .cols = band, .whole_col = whole});
  }
  return pieces;
}

}  // namespace ng
