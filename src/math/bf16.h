// BF16 as it lies in memory: the upper half of an FP32 number.
#pragma once

#include <cstdint>

#include "math/round.h"

namespace ng {

/// A BF16 number: a type of its own, so that no pattern is taken for an integer.
struct Bf16 {
  uint16_t bits = 0;
};

/// Exact.
[[nodiscard]] NG_HD constexpr float widened(Bf16 x) {
  return float_of_bits(uint32_t{x.bits} << 16);
}

/// Nearest even, as round_to_bf16.
[[nodiscard]] NG_HD constexpr Bf16 to_bf16(float x) {
  return {static_cast<uint16_t>(float_bits(round_to_bf16(x)) >> 16)};
}

}  // namespace ng
