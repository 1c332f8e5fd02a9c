// Elements of at most 8 bits, as operands keep them, back to codes: a row at a time, one code a
// byte. [formats.md §1.1]
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "format/table.h"

namespace ng::cpu {

/// Codes of elements that are kept as integers, by these as bytes.
struct IntegerCodes {
  std::array<uint8_t, 256> codes{};
  uint16_t used = 0xFFFF;  ///< bit h: some code is of an integer h · 16 ... h · 16 + 15 as a byte
};

/// codes[c] = those of from[c].
void codes_of_integers(const IntegerCodes& table, const int8_t* from, int64_t count,
                       uint8_t* codes);

/// How a floating element that is kept as BF16 becomes its code.
struct PatternCodes {
  int mantissa_bits = 0;
  int16_t least_normal = 0;  ///< BF16 of the least normal magnitude
  int16_t rebias = 0;        ///< from BF16's exponent field and the mantissa to the code
  uint8_t sign = 0;
  uint8_t negative_zero = 0;        ///< code of -0
  std::vector<int16_t> subnormals;  ///< BF16 of the magnitudes of codes 1, 2, ...
  const uint16_t* table = nullptr;  ///< [2^16] codes by BF16: of infinities and NaN, and where
                                    ///< lanes are scalars of all
};

/// Whether the element's numbers are BF16 numbers with smaller fields.
[[nodiscard]] bool has_pattern_codes(const ElementFormat& element);
/// For such an element; `table` must live as long.
[[nodiscard]] PatternCodes pattern_codes(const ElementFormat& element, const uint16_t* table);

/// codes[c] = that of the BF16 number from[c], which the element has.
void codes_of_patterns(const PatternCodes& rule, const uint16_t* from, int64_t count,
                       uint8_t* codes);

}  // namespace ng::cpu
