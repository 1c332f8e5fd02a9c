// Preparing GEMM operands: source values -> packed elements and scales, in either direction, with
// Hadamard transform and stochastic rounding fused in. Bits are those of backend/ref/operand.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/backend.h"
#include "backend/cpu/packed.h"
#include "backend/cpu/quantize/source.h"
#include "backend/cpu/workspace.h"

namespace ng::cpu {

/// Bytes of storage of an operand; 0 where the GEMM reads the source in place.
[[nodiscard]] size_t operand_bytes(const OperandSpec& spec);

/// Fills packed->storage from `source` by packed->spec (see packed.h), or keeps `source` where the
/// operand is read in place. Shapes: source (rows, k), for Contract::rows (k, rows).
void prepare(Workspace& workspace, const Prepare& op);
/// The same where the draws of `source` are not those of rows of a whole tensor;
/// op.context.first_row says nothing then.
void prepare(Workspace& workspace, const Prepare& op, const DrawGroups& groups);

/// What a scale of the whole operand is made of, in the first pass of its preparation.
void find_operand_amax(Workspace& workspace, const FindOperandAmax& op);

/// Two operands of one source: tile by tile, so that the second finds the values in the cache,
/// where both can be made of parts; else one after the other.
void prepare_both(Workspace& workspace, const PrepareBoth& op);

/// Values = element · block scale · tensor scale, one rounding each.
void unpack(Threads threads, const Unpack& op);
/// Rows of a product in the basis of a transform, in that of their columns.
void turn_back(Workspace& workspace, const TurnBack& op);
/// What of a product the rounding of an operand lets through.
void rounding_backward(Workspace& workspace, const RoundingBackward& op);

/// End of step for one delayed scale. [formats.md §5]
void roll_delayed_scale(const Operand& cast, DelayedScale state);

}  // namespace ng::cpu
