// Gradients as E4M3 codes: made of values and added up in registers, without elements in FP32
// memory between, which takes several times as long. Bits are those of the general way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "backend/cpu/quantize/kernels.h"

namespace ng::cpu {

/// codes[i] = values[i] · encode, saturating: to nearest even, or by a draw for each value (those
/// readable to a multiple of 16).
void store_e4m3(const ElementGrid& grid, std::span<const float> values, float encode,
                const uint16_t* draws, std::byte* codes);

/// Codes of several ranks that become one mean.
struct E4m3Sum {
  std::span<const std::byte* const> ranks;  ///< in the order in which they are added
  bool rounds_each = false;  ///< every sum is rounded to E4M3, saturating; else exact in FP32
  float factor = 1;
  int64_t count = 0;
  float* mean = nullptr;  ///< sum · factor
};
/// Returns how many sums are ± the largest value.
uint64_t sum_e4m3(const ElementGrid& grid, const E4m3Sum& sum);

/// How many bytes are `byte`, their highest bit aside.
[[nodiscard]] uint64_t count_magnitude(std::span<const uint8_t> bytes, uint8_t byte);

}  // namespace ng::cpu
