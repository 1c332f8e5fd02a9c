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

/// Fills packed.storage from `source` by packed.spec (see packed.h), or keeps `source` where the
/// operand is read in place. Shapes: source (rows, k), for Contract::rows (k, rows).
void prepare(Workspace& workspace, PackedOperand& packed, ConstView source,
             const PrepareContext& context);
/// The same where the draws of `source` are not those of rows of a whole tensor;
/// context.first_row says nothing then.
void prepare(Workspace& workspace, PackedOperand& packed, ConstView source,
             const PrepareContext& context, const DrawGroups& groups);

/// Two operands of one source: tile by tile, so that the second finds the values in the cache,
/// where both can be made of parts; else one after the other.
void prepare_both(Workspace& workspace, const Preparation& first, const Preparation& second,
                  ConstView source);

/// Values (rows, k_padded) = element · block scale · tensor scale, one rounding each; codes may be
/// null, and must be for FP32 elements.
void unpack(const PackedOperand& packed, View values, uint16_t* codes);
/// A part of these values: Backend::unpack_rows.
void unpack_rows(const PackedOperand& packed, int64_t first, View values);

/// End of step for one delayed scale. [formats.md §5]
void roll_delayed_scale(const Operand& cast, DelayedScale state);

}  // namespace ng::cpu
