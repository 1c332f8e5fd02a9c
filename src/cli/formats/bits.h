// Numbers and codes as text that hides nothing: bits split into their fields, values exactly.
#pragma once

#include <string>

#include "format/table.h"

namespace ng::cli {

/// "0x34": as many digits as the format's bits need.
[[nodiscard]] std::string code_text(const ElementFormat& format, uint32_t code);
/// Sign, exponent and mantissa apart: "0 0110 100"; the bits alone where there are no fields.
[[nodiscard]] std::string code_bits(const ElementFormat& format, uint32_t code);
/// The same of an FP32 number: "0 01111110 10001111010111000010100".
[[nodiscard]] std::string float_bits_text(float x);

/// Shortest decimal number that no other double has: "0.7799999713897705"; "NaN", "inf".
[[nodiscard]] std::string number_text(double x);
/// Exactly x: a short decimal number, else an odd integer times a power of two: "7 x 2^-16".
[[nodiscard]] std::string exact_text(double x);
/// Always so, x != 0 and finite: "2^-6".
[[nodiscard]] std::string factored_text(double x);

/// significand · 2^-shift in binary without trailing zeros; a long run of leading zeros is counted:
/// "1100.011", ".(40 zeros)101".
[[nodiscard]] std::string binary_text(uint32_t significand, int shift);

}  // namespace ng::cli
