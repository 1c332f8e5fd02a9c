// Norms of parts of a row, each by itself and with the same gain: of heads that lie side by side.
#pragma once

#include "backend/layer_operations.h"
#include "base/error.h"

namespace ng {

/// How many a row has.
template <class Op>
[[nodiscard]] int64_t norm_parts(const Op& op) {
  NG_CHECK(op.gain.cols > 0 && op.x.cols % op.gain.cols == 0, op.x.cols, op.gain.cols);
  const int64_t parts = op.x.cols / op.gain.cols;
  NG_CHECK(parts == 1 || op.amax == nullptr, parts);
  return parts;
}

/// The norm of one of them alone.
[[nodiscard]] inline Norm part_of(Norm op, int64_t part) {
  const int64_t size = op.gain.cols, at = part * size;
  op.y = op.y.columns(at, size);
  op.x = op.x.columns(at, size);
  return op;
}
[[nodiscard]] inline NormBackward part_of(NormBackward op, int64_t part) {
  const int64_t size = op.gain.cols, at = part * size;
  op.dx = op.dx.columns(at, size);
  op.dy = op.dy.columns(at, size);
  op.x = op.x.columns(at, size);
  if (op.dresidual.rows > 0) op.dresidual = op.dresidual.columns(at, size);
  return op;
}

}  // namespace ng
