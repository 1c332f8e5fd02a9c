// Operands without scale, or of floating elements with one for all of them: FP8, current or
// delayed. The bits of `ref`. [formats.md §5]
#pragma once

#include "backend/cuda/kernels/element_cast.h"
#include "backend/cuda/kernels/operand.h"
#include "backend/cuda/kernels/operand_groups.h"
#include "backend/cuda/kernels/passed_gradient.h"
#include "format/scale.h"

namespace ng::cuda {

/// What makes one.
struct OneScaleJob {
  OperandGroups from;
  ElementCast element;
  ElementRange range;
  float prescale = 1;
  CodeRows codes;
  CardScale* scale = nullptr;
  OperandStats* stats = nullptr;  ///< null: nothing is counted
  Operand cast;
  const float* amax = nullptr;  ///< of all that the source is a part of; null: the source is all
  DelayedScale delayed;
  bool update_history = true;
  const float* taken = nullptr;  ///< scale of a stored tensor, whose elements the values are
};

/// Before largest magnitudes are looked for.
void forget_scales(Stream stream, CardScale* scales, int64_t count);
/// *scale: the largest magnitude of what the groups cast.
void find_operand_largest(Stream stream, const OperandGroups& from, CardScale* scale);

void prepare_one_scale(Stream stream, const OneScaleJob& job);

/// Both operands of a matrix, whose codes are made by one read of it, the second turned; false: not
/// made, for their groups fit into no tile.
[[nodiscard]] bool prepare_one_scale_both(Stream stream, const OneScaleJob& straight,
                                          const OneScaleJob& turned);

/// RoundingBackward of one, whose codes are not made.
void pass_one_scale(Stream stream, const OneScaleJob& job, const PassedGradient& passed);

}  // namespace ng::cuda
