// Rounding eden: elements are nearest, and the scales of each group of the Hadamard transform are
// corrected, so that the rounded group meets the values that it was made of. [linear.md 5]
#pragma once

#include "backend/cpu/quantize/job.h"

namespace ng::cpu {

/// A piece of whole groups, by whose scales its elements were rounded.
struct RoundedPiece {
  Piece at;                           ///< in the operand
  TileValues values;                  ///< at.rows × at.cols, after the transform
  float* decode = nullptr;            ///< [at.rows][blocks], as stored
  const float* multiplier = nullptr;  ///< the same, as the encoder has them
  int64_t stride = 0;                 ///< blocks from one row to the next
};

/// Corrects the scales of `piece`. `by_definition` where values may not be finite, or the cast is
/// one that only the scalar definition knows. `draws`: what QuantizeScratch has for a piece.
void correct_scales(const QuantizeJob& job, const RoundedPiece& piece, bool by_definition,
                    uint16_t* draws);

}  // namespace ng::cpu
