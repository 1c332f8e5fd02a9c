// Matrices in elements of at most 8 bits whose codes lie one a byte.
#pragma once

#include <cstdint>
#include <vector>

#include "numbers/narrow_matrix.h"

namespace ng {

/// Where codes go, one a byte: those of row r from codes + r · stride on.
struct ByteCodes {
  uint8_t* codes = nullptr;  ///< null: nowhere
  int64_t stride = 0;
};

/// quantize() of an element of at most 8 bits; `codes` becomes [rows][cols] of what is returned,
/// whose own codes are empty.
[[nodiscard]] NarrowMatrix quantize_to_bytes(Rows<const float> source, const Operand& cast,
                                             const QuantizeOptions& options, Threads threads,
                                             std::vector<uint8_t>& codes);

}  // namespace ng
