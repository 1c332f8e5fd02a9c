// Least and greatest values of a matrix: what scales of whole tensors, rows and columns need.
#pragma once

#include <algorithm>
#include <span>

#include "base/threads.h"
#include "tensor/rows.h"

namespace ng {

/// Zero is part of every range; NaN is skipped.
struct ValueRange {
  float low = 0;
  float high = 0;
  bool finite = true;  ///< no NaN and no infinity was met

  [[nodiscard]] float amax() const { return std::max(-low, high); }
  void add(const ValueRange& other);
};

/// Widens `range` by all values.
void note_values(ValueRange& range, Rows<const float> values, Threads threads);

/// Widens ranges[c] by column c.
void note_columns(std::span<ValueRange> ranges, Rows<const float> values, Threads threads);

}  // namespace ng
