// What forward keeps of a tensor for backward: the tensor, or its values in few bits, which
// backward alone reads. [rivals.md §2.9]
#pragma once

#include "nn/source.h"

namespace ng {

/// Whether a tensor that is stored as `element` is kept as it is.
[[nodiscard]] bool is_kept_as_made(const Operand& cast, const ElementFormat& element);

/// Leaves x on the run's stack in the numbers of `cast`, rounded to nearest; FP32, or what x is
/// stored as, leaves x itself. Where ranks of a tensor group have parts of x and a scale is of the
/// whole, it is one for all of them.
void save(Run& run, const Tensor& x, const Operand& cast);

/// What save() left.
class Saved {
 public:
  /// Takes it off the stack. `element`: what x was stored as.
  Saved(Run& run, const Operand& cast, const ElementFormat& element);
  /// x itself, or made again as `element` of what was kept, at every call.
  [[nodiscard]] Tensor values(Run& run) const;

 private:
  const ElementFormat* element_;
  Tensor whole_;  ///< empty where it was cast
  CastTensor cast_;
};

}  // namespace ng
