#include "backend/cpu/quantize/subnormals.h"

#include <algorithm>

#include "base/error.h"
#include "math/round.h"

namespace ng::cpu {
namespace {

/// The elements of a row as integers: magnitudes are below `least` or normal.
struct Integers {
  int least;
  [[nodiscard]] bool is_flushed(int8_t n) const { return -least < n && n < least && n != 0; }
  [[nodiscard]] static int8_t zero(int8_t) { return 0; }
};

/// As BF16: patterns of magnitudes are ordered like these, those of NaN above all.
struct Patterns {
  int least;
  int sign;  ///< what stays of a flushed one
  [[nodiscard]] bool is_flushed(uint16_t u) const {
    const int magnitude = u & 0x7FFF;
    return magnitude != 0 && magnitude < least;
  }
  [[nodiscard]] uint16_t zero(uint16_t u) const { return static_cast<uint16_t>(u & sign); }
};

template <class Element, class Rule>
uint64_t flush(const EncodeTile& tile, const Rule& rule) {
  uint64_t flushed = 0;
  const int64_t counted = std::clamp<int64_t>(tile.counted_cols, 0, tile.cols);
  for (int64_t r = 0; r < tile.rows; ++r) {
    Element* row = static_cast<Element*>(tile.out) + r * tile.out_stride;
    uint32_t in_row = 0;
    for (int64_t c = 0; c < counted; ++c) in_row += rule.is_flushed(row[c]) ? 1 : 0;
    for (int64_t c = 0; c < tile.cols; ++c)
      row[c] = rule.is_flushed(row[c]) ? rule.zero(row[c]) : row[c];
    flushed += in_row;
  }
  return flushed;
}

}  // namespace

uint64_t flush_subnormals(const ElementGrid& grid, const EncodeTile& tile) {
  NG_CHECK(grid.kind == ElementGrid::Kind::small && tile.form != ElementForm::fp32,
           grid.mantissa_bits);
  if (tile.form == ElementForm::int8)
    return flush<int8_t>(tile, Integers{static_cast<int>(grid.lowest_binade / tile.unit)});
  return flush<uint16_t>(tile,
                         Patterns{.least = static_cast<int>(float_bits(grid.lowest_binade) >> 16),
                                  .sign = grid.has_negative_zero ? 0x8000 : 0});
}

}  // namespace ng::cpu
