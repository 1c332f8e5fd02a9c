// Elements of FP4 and FP6 blocks as FP8 numbers under one scale: element · 2^(exponent of its block
// - reference), as long as FP8 holds the product. [gpu.md §4 (b)]
#pragma once

#include "base/host_device.h"
#include "format/table.h"

namespace ng::cuda {

/// Exponents, the reference taken off, by which every value of an element is exact in a container.
struct FoldWindow {
  int least = 0, most = -1;
  [[nodiscard]] NG_HD int binades() const { return most - least + 1; }
  friend bool operator==(const FoldWindow&, const FoldWindow&) = default;
};
/// Of floating elements without infinities and NaN; no binades: the container has too few bits.
[[nodiscard]] FoldWindow fold_window(const ElementFormat& element, const ElementFormat& container);

}  // namespace ng::cuda
