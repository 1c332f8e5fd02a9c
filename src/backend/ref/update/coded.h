// States that are not stored as element · scale. [linear.md 9]
#pragma once

#include <span>

#include "tensor/stored.h"

namespace ng::ref {

/// By the map or the expansion that the view's coding names, block by block.
void store_coded(const View& y, std::span<const float> values);

/// hi = BF16(x), lo = BF16(fl(x - hi)).
void store_in_parts(const Stored& y, std::span<const float> values);

}  // namespace ng::ref
