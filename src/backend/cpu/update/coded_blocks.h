// Vector kernels of states that are not stored as element · scale, one block at a time: the bits of
// format/expansion.h, format/dynamic_map.h and ref/update/coded.cc. [linear.md 9]
#pragma once

#include <cstdint>

#include "format/dynamic_map.h"
#include "format/expansion.h"
#include "math/bf16.h"

namespace ng::cpu {

/// Magnitudes of a block, NaN aside.
struct BlockRange {
  float most = 0;   ///< 0: there is none
  float least = 0;  ///< that is not zero; 0: there is none
};
[[nodiscard]] BlockRange block_range(const float* values, int64_t count);

/// As ExpandedValues and ExpandedLimits.
void read_expanded_block(const Expansion& expansion, const uint8_t* codes, int64_t count,
                         float* values);
void write_expanded_block(const Expansion& expansion, const float* values, int64_t count,
                          uint8_t* codes);

/// As DynamicMap::code(value, inverse).
void write_mapped_block(bool is_positive, float inverse, const float* values, int64_t count,
                        uint8_t* codes);

/// high + low
void read_two_parts(const Bf16* high, const Bf16* low, int64_t count, float* values);
/// Each within ±most, nearest even; low is what high lost.
void write_two_parts(float most, const float* values, int64_t count, Bf16* high, Bf16* low);

}  // namespace ng::cpu
