#include "cli/formats/bits.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>

#include "format/codec.h"

namespace ng::cli {
namespace {

constexpr size_t kShort = 11;      // characters of a decimal number that may stand in a table
constexpr size_t kManyZeros = 24;  // in a row: counted instead of written

std::string bits_of(uint64_t value, int count) {
  return count == 0 ? "" : fmt::format("{:0{}b}", value, count);
}

int stored_bits(const ElementFormat& format) { return std::bit_width(code_count(format) - 1); }

}  // namespace

std::string code_text(const ElementFormat& format, uint32_t code) {
  return fmt::format("0x{:0{}X}", code, (stored_bits(format) + 3) / 4);
}

std::string code_bits(const ElementFormat& format, uint32_t code) {
  if (format.kind != ElementKind::floating) return bits_of(code, stored_bits(format));
  const int x = format.exponent_bits;
  const int y = format.mantissa_bits;
  std::string text = format.is_signed ? bits_of(code >> (x + y), 1) + ' ' : "";
  text += bits_of((code >> y) & ((1u << x) - 1), x);
  if (y > 0) text += ' ' + bits_of(code & ((1u << y) - 1), y);
  return text;
}

std::string float_bits_text(float x) { return code_bits(element_format("fp32"), float_bits(x)); }

std::string number_text(double x) { return std::isnan(x) ? "NaN" : fmt::format("{}", x); }

std::string exact_text(double x) {
  std::string text = number_text(x);
  if (text.size() <= kShort || x == 0 || !std::isfinite(x)) return text;
  return factored_text(x);
}

std::string factored_text(double x) {
  int exponent = 0;
  auto odd = static_cast<int64_t>(std::ldexp(std::frexp(x, &exponent), 53));
  exponent -= 53;
  for (; odd % 2 == 0; odd /= 2) ++exponent;
  if (odd == 1 || odd == -1) return fmt::format("{}2^{}", odd < 0 ? "-" : "", exponent);
  return fmt::format("{} x 2^{}", odd, exponent);
}

std::string binary_text(uint32_t significand, int shift) {
  if (shift <= 0) return bits_of(uint64_t{significand} << -shift, 1);
  const uint64_t whole = shift < 32 ? significand >> shift : 0;
  const uint64_t rest = shift < 32 ? significand & ((uint64_t{1} << shift) - 1) : significand;
  std::string text = whole == 0 ? "0" : bits_of(whole, 1);
  if (rest == 0) return text;
  std::string digits = bits_of(rest, 1);
  const auto zeros = static_cast<size_t>(shift) - digits.size();
  digits.erase(digits.find_last_not_of('0') + 1);
  text += '.';
  text += zeros > kManyZeros ? fmt::format("({} zeros)", zeros) : std::string(zeros, '0');
  return text + digits;
}

}  // namespace ng::cli
