// A Hadamard transform by a warp: value `lane` of up to four blocks of 32, in the order of
// format/hadamard.h, whose bits it has. [formats.md §7]
#pragma once

#include <cstdint>

#include "backend/cuda/words.h"
#include "backend/operand_spec.h"
#include "format/hadamard.h"

namespace ng::cuda {

inline constexpr int kMostHadamardBlocks = 4;  ///< of 32 values: 128

/// As a kernel is passed it.
struct CardHadamard {
  int size = 0;  ///< 0: none
  uint32_t signs[4] = {};
  const uint32_t* live = nullptr;  ///< signs of the step that is under way; null: `signs`

  /// Of value `lane` of block `b`.
  [[nodiscard]] __device__ bool is_negative(int b, int lane) const {
    return has_negative_sign(live != nullptr ? live : signs, (b * kWarp + lane) % size);
  }
};

[[nodiscard]] inline CardHadamard card_hadamard(Stream stream, const Hadamard& of) {
  Live* const live = live_of(stream);
  return {of.size,
          {of.signs[0], of.signs[1], of.signs[2], of.signs[3]},
          live != nullptr ? live->signs_of(of) : nullptr};
}

/// In place, of groups of `size` values; smaller ones than a block lie in it side by side.
__device__ inline void butterflies_of_warp(float (&x)[kMostHadamardBlocks], int lane, int size) {
  const auto turn = [](float& a, float& b) {
    const float sum = a + b;
    b = a - b;
    a = sum;
  };
  for (float& value : x)
    for (int stride = 1; stride < kWarp && stride < size; stride *= 2) {
      const float other = __shfl_xor_sync(~0u, value, stride);
      value = (lane & stride) != 0 ? other - value : value + other;
    }
  if (size > kWarp) {
    turn(x[0], x[1]);
    turn(x[2], x[3]);
  }
  if (size > 2 * kWarp) {
    turn(x[0], x[2]);
    turn(x[1], x[3]);
  }
}

}  // namespace ng::cuda
