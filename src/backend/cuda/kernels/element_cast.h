// How a kernel rounds one value to an element: the rules of math/round.h with its draw.
#pragma once

#include <cstdint>

#include "backend/cuda/words.h"
#include "math/philox.h"
#include "math/round.h"

namespace ng::cuda {

/// How one value becomes a code. [formats.md §2]
struct ElementCast {
  FloatGrid grid;
  OverflowRule overflow = OverflowRule::saturate;
  RoundMode mode = RoundMode::rne;
  int sr_bits = 16;  ///< of RoundMode::sr
  RandomKey key;     ///< of RoundMode::sr: draws of the element's place in the matrix
};

/// Of x at (row, col) of a matrix of `cols` columns.
__device__ inline uint32_t code_of(const ElementCast& cast, float x, int64_t row, int64_t col,
                                   int64_t cols) {
  Rounder rounder{.mode = cast.mode, .bits = cast.sr_bits, .random = 0};
  if (cast.mode == RoundMode::sr)
    rounder.random = random_bits(cast.key, static_cast<uint64_t>(row), static_cast<uint64_t>(col),
                                 static_cast<uint64_t>(cols), cast.sr_bits);
  return encode_float(cast.grid, x, rounder, cast.overflow);
}

}  // namespace ng::cuda
