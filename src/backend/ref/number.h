// The number rules that the operations of `ref` share.
#pragma once

#include "backend/backend.h"
#include "math/round.h"

namespace ng::ref {

/// An input as `compute` reads it, an output as `compute` stores it. [recipes.md §7, `compute`]
inline float in(float x, Compute compute) {
  return compute == Compute::bf16 ? round_to_bf16(x) : x;
}
inline float out(float x, Compute compute) {
  return compute == Compute::bf16 ? round_to_bf16(x) : x;
}

/// Both views have the same shape.
inline bool same_shape(ConstView a, ConstView b) { return a.rows == b.rows && a.cols == b.cols; }

}  // namespace ng::ref
