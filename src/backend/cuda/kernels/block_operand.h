// Operands whose values share scales in blocks of any shape, in rows or as a whole: all but those
// that mx_block.h and one_scale.h are made for. The bits of `ref`. [formats.md §3 to §6]
#pragma once

#include "backend/cuda/kernels/block_scale.h"
#include "backend/cuda/kernels/passed_gradient.h"
#include "backend/cuda/kernels/perform.h"
#include "backend/cuda/kernels/stored.h"

namespace ng::cuda {

/// What makes one.
struct BlockJob {
  OperandValues values;
  CardOperand y;
  RegionRule rule;
  const float* amax = nullptr;    ///< of all that the source is a part of; null: the source is all
  OperandStats* stats = nullptr;  ///< null: nothing is counted
  StoredSource taken{};           ///< a stored tensor whose scales are taken; else none
  const StepControl* control = nullptr;  ///< null: never skipped
};

/// Of z, at (row, k), under the scale of its block; it is counted where anybody asks.
__device__ inline uint32_t code_of_value(const BlockJob& job, const RegionScale& by, int64_t row,
                                         int64_t k, float z, CastCounts& counts) {
  const RegionRule& rule = job.rule;
  const bool is_counted = job.stats != nullptr && k < job.values.from.k;
  if (is_counted) counts.take_nonfinite(z);
  if (by.is_nan) return 0;
  const float y = rule.scaled(by, z);
  const uint32_t code = rule.code(by, y, job.values.rounder(rule.element, row, k));
  if (is_counted) counts.take_rounded(z, y, rule.range.max, rule.is_zero(by, code));
  return code;
}

/// A source that goes through a Hadamard transform does so in the scratch, some rows at a time,
/// where blocks are not of lines [line_operand.h].
void prepare_blocks(Stream stream, const BlockJob& job, const Scratch& scratch);

/// Both operands of a matrix, whose codes are made by one read of it, the second turned; false: not
/// made, for blocks are not of lines or groups fit into no tile.
[[nodiscard]] bool prepare_blocks_both(Stream stream, const BlockJob& straight,
                                       const BlockJob& turned, const Scratch& scratch);

/// RoundingBackward of one, of which neither codes nor scales of blocks are written.
void pass_blocks(Stream stream, const BlockJob& job, const PassedGradient& passed,
                 const Scratch& scratch);

/// Scales of the second level, of the largest magnitudes that were found; `amax`: at least so much.
void decide_levels(Stream stream, const CardScales& second, const Operand& cast, const float* amax);

/// Rows [first, first + count) of one, which begin with a block.
void round_rows(Stream stream, const BlockJob& job, int64_t first, int64_t count);

/// made[i]: the scale of the i-th block of such rows, of which nothing is written.
void choose_region_scales(Stream stream, const BlockJob& job, int64_t first, int64_t count,
                          RegionScale* made);

/// What makes the codes and scales of a tensor that persists; `second`: where its second level is.
[[nodiscard]] BlockJob stored_job(const BlockStore& store, CardScale* second);

}  // namespace ng::cuda
