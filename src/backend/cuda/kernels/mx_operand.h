// Operands in blocks of 32 along K with E8M0 scales. [formats.md §3.2, §4]
#pragma once

#include "backend/cuda/kernels/operand_groups.h"

namespace ng::cuda {

/// An operand and what it is made of.
struct MxJob {
  OperandGroups from;
  MxCast cast;
  MxOperand y;
  OperandStats* stats = nullptr;  ///< null: nothing is counted
};

/// The bits of `ref`'s Prepare.
void prepare_mx(Stream stream, const MxJob& job);

/// Both operands of a matrix from one read of it, the second turned; false: not made, for their
/// groups fit into no tile. The bits of `ref`'s PrepareBoth.
[[nodiscard]] bool prepare_mx_both(Stream stream, const MxJob& straight, const MxJob& turned);

}  // namespace ng::cuda
