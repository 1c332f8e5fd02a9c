// Codes of at most 16 bits and their scales back to FP32, a row at a time. [formats.md §1.1, §6]
#pragma once

#include <cstdint>
#include <vector>

#include "format/table.h"

namespace ng::cpu {

/// What decoding the codes of one element format takes; made once for many rows.
struct CodeDecoder {
  enum class Kind : uint8_t {
    floating,  ///< sign, field and mantissa put where FP32 has them
    integer,   ///< i · 2^-m
    table,     ///< any other: looked up
  };
  Kind kind = Kind::table;
  int mantissa_bits = 0;
  int bias = 0;                        ///< floating: at most 127
  uint32_t sign_mask = 0;              ///< 0: unsigned
  uint32_t magnitude_mask = 0;         ///< floating
  uint32_t max_code = 0;               ///< floating: larger magnitudes are no numbers
  uint32_t inf_code = 0;               ///< floating, Specials::ieee: magnitude of infinity
  Specials specials = Specials::none;  ///< floating
  std::vector<float> table;            ///< values of all codes: of Kind::table, and where
                                       ///< lanes are scalars of up to 8 bits
};

/// For an element of at most 16 bits.
[[nodiscard]] CodeDecoder code_decoder(const ElementFormat& element);

/// A row of codes below the element's code count.
struct CodedRow {
  const uint16_t* codes = nullptr;
  int64_t cols = 0;
  int64_t block = 1;              ///< columns that share a scale, at least 1
  const float* scales = nullptr;  ///< [⌈cols / block⌉] decode multipliers; null: none
  const uint8_t* zeros = nullptr;  ///< [⌈cols / block⌉] zero points of affine integers; null: none
  float tensor_scale = 1;
};

/// values[c] = fl32(fl32(decode(codes[c]) · scale) · tensor_scale); where the zero point is not 0
/// fl32(fl32(decode(codes[c]) - zero) · scale); without scales decode(codes[c]). Same bits on every
/// instruction set, payloads of NaN aside.
void dequantize_row(const CodeDecoder& decoder, const CodedRow& row, float* values);

}  // namespace ng::cpu
