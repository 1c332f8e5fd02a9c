// The definition of operand preparation: source values -> codes and scales. [recipes.md §0,
// "Quantize an operand"; formats.md §2-§7]
//
// Order, for the operand (rows, k_padded):
//   1. values of the source (FP32, or exact in it), less the mean of their column, transposed for
//   Contract::rows; +0 for k >= spec.k
//   2. Hadamard transform of groups along K (formats.md §7)
//   3. scales from the amax of the values so far: per block, row or tensor, NVFP4's two levels (the
//      second of the whole, or of each region of tensor_block [linear.md 7]), or the stored one
//      (delayed scaling)
//   4. · prescale, one FP32 rounding
//   5. one rounding per element. Stochastic: R = random_bits(key, row + first_row, col + first_col,
//      whole_cols) of the element's place in the untransposed, whole source; a value moved by
//      the Hadamard transform draws for the position it ends at. Positions k >= spec.k draw by the
//      same formula with their (row, col) outside the source; without a transform they are +0 and
//      stay so. Integers (int8, int4) use floor(x + R·2^-r), all others the magnitude.
//   6. counters (formats.md §2.2, §8), over k < spec.k only: nan, inf: of the value after step 2;
//      saturated: finite, and the magnitude given to step 5 lies above the largest element;
//      flushed: nonzero after step 2 and its code is zero (not in a NaN block).
//
// A cast without scales rounds the value itself; FP32 keeps every bit, NaN payloads included.
#pragma once

#include "backend/operations.h"

namespace ng::ref {

/// Storage of a ref operand: everything decoded, one FP32 number per element.
struct OperandParts {
  float* elements = nullptr;       ///< [rows][k_padded]: decoded codes without any scale
  float* scales = nullptr;         ///< decode multipliers [scale_rows][scale_cols]; NaN: E8M0 0xFF;
                                   ///< negative, as elements are: the second of a list of those
  float* tensor_scales = nullptr;  ///< [regions down][across]: NVFP4's s_t, else 1
  int64_t region_rows = 1;         ///< operand rows and values along K that share one of them
  int64_t region_cols = 1;
  int64_t regions_across = 1;
  int64_t scale_rows = 0;  ///< 0 × 0 where the cast has no scales
  int64_t scale_cols = 0;
  int64_t block_rows = 1;  ///< operand rows and values along K that share a scale
  int64_t block_cols = 1;

  [[nodiscard]] float& scale(int64_t row, int64_t k) const {
    return scales[row / block_rows * scale_cols + k / block_cols];
  }
  [[nodiscard]] float& tensor_scale(int64_t row, int64_t k) const {
    return tensor_scales[row / region_rows * regions_across + k / region_cols];
  }
};

[[nodiscard]] OperandParts parts_of(const PackedOperand& packed);

[[nodiscard]] size_t operand_bytes(const OperandSpec& spec);
/// `amax`: at least so much is that of a scale for all of the operand; 0: as the values say.
void prepare(PackedOperand& packed, const ConstView& source, const PrepareContext& context,
             float amax = 0);
void perform(const Prepare& op);
void perform(const FindOperandAmax& op);
void perform(const PrepareBoth& op);

/// values: fl32(element · scale), then fl32(· tensor scale).
void perform(const Unpack& op);
void perform(const TurnBack& op);
void perform(const RoundingBackward& op);

/// End of step for one delayed scale. [formats.md §5]
void perform(const RollDelayedScale& op);

}  // namespace ng::ref
