// An update walks its tensors in stretches: values side by side in a row, few enough that all that
// is made of them stays in a core's cache.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/error.h"

namespace ng::cpu {

/// Columns [col, col + count) of a row.
struct Stretch {
  int64_t row = 0;
  int64_t col = 0;
  int64_t count = 0;
};

constexpr int64_t kStretch = 2048;          ///< most values of one
constexpr int64_t kItemElements = 1 << 14;  ///< about what a thread takes at a time

/// A matrix cut into items, and those into stretches; borders depend on the shape only. Stretches
/// begin at multiples of `unit` columns.
class StretchWalk {
 public:
  StretchWalk(int64_t rows, int64_t cols, int64_t unit)
      : rows_(rows), cols_(cols), step_(kStretch / unit * unit) {
    NG_CHECK(unit >= 1 && unit <= kStretch, unit);
    item_cols_ = cols <= kItemElements ? cols : kItemElements / step_ * step_;
    item_rows_ = std::max<int64_t>(1, kItemElements / std::max<int64_t>(cols, 1));
    across_ = cols == 0 ? 0 : (cols + item_cols_ - 1) / item_cols_;
  }

  [[nodiscard]] int64_t items() const { return across_ * ((rows_ + item_rows_ - 1) / item_rows_); }
  /// body(stretch) for those of an item, in order.
  template <class Body>
  void for_item(int64_t item, const Body& body) const {
    const int64_t row = item / across_ * item_rows_, col = item % across_ * item_cols_;
    const int64_t end = std::min(cols_, col + item_cols_);
    for (int64_t r = row; r < std::min(rows_, row + item_rows_); ++r)
      for (int64_t c = col; c < end; c += step_) body(Stretch{r, c, std::min(step_, end - c)});
  }

 private:
  int64_t rows_, cols_, step_;
  int64_t item_cols_ = 0, item_rows_ = 0, across_ = 0;
};

}  // namespace ng::cpu
