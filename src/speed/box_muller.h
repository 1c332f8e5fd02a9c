// Rounded normal noise the way it is made without bit tricks: Box and Muller's transform of uniform
// draws, in one pass with everything else. What GaussWS' draws are measured against. [source 002,
// Fig. 6]
#pragma once

#include <cstdint>

#include "math/bf16.h"

namespace ng {

/// Some rows of a weight; `cols` is a multiple of 32.
struct BoxMullerPanel {
  const float* weight = nullptr;
  const uint16_t* draws = nullptr;  ///< 16 bits an element
  const float* scales = nullptr;    ///< of each 32 columns
  Bf16* y = nullptr;
  int64_t rows = 0, cols = 0;  ///< without gaps between rows, of the draws neither
};

/// y = w + round(n/2)·s; the normal numbers n of 16 columns and of the 16 beside them are
/// √(-2 ln u₁)·cos(2πu₂) and √(-2 ln u₁)·sin(2πu₂), u = (draw + ½)/2^16.
void add_box_muller(const BoxMullerPanel& panel);

}  // namespace ng
