// The values of a tensor as numbers.
#include <bit>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/json.h"
#include "io/safetensors.h"
#include "io/safetensors_dtype.h"

namespace ng::io {
namespace {

/// The i-th stored value; the data need not be aligned.
template <class Stored>
Stored load(const SafetensorsEntry& entry, size_t i) {
  Stored value;
  std::memcpy(&value, entry.data + i * sizeof(Stored), sizeof(Stored));
  return value;
}

template <class Stored, class Value, class Convert>
std::vector<Value> convert_all(const SafetensorsEntry& entry, const Convert& convert) {
  std::vector<Value> values(static_cast<size_t>(entry.elements()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = convert(load<Stored>(entry, i));
  return values;
}

template <class Stored, class Value>
std::vector<Value> cast_all(const SafetensorsEntry& entry) {
  return convert_all<Stored, Value>(entry, [](Stored value) { return static_cast<Value>(value); });
}

/// Value of an IEEE-like code with sign; codes of Inf and NaN are the caller's. [formats.md 1.1]
float decode_finite(uint32_t code, int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const uint32_t mantissa = code & ((1u << mantissa_bits) - 1);
  const int exponent = static_cast<int>((code >> mantissa_bits) & ((1u << exponent_bits) - 1));
  const uint32_t hidden = exponent > 0 ? 1u << mantissa_bits : 0u;
  const float value = std::ldexp(static_cast<float>(hidden + mantissa),
                                 std::max(exponent, 1) - bias - mantissa_bits);
  return (code >> (exponent_bits + mantissa_bits)) != 0 ? -value : value;
}

float decode_ieee(uint32_t code, int exponent_bits, int mantissa_bits) {
  const uint32_t all_ones = (1u << exponent_bits) - 1;
  if (((code >> mantissa_bits) & all_ones) != all_ones) {
    return decode_finite(code, exponent_bits, mantissa_bits);
  }
  const uint32_t sign = code >> (exponent_bits + mantissa_bits) << 31;
  const uint32_t mantissa = (code & ((1u << mantissa_bits) - 1)) << (23 - mantissa_bits);
  return std::bit_cast<float>(sign | 0x7F800000u | mantissa);  // keeps a NaN's payload
}

float decode_e4m3fn(uint8_t code) {
  return (code & 0x7F) == 0x7F ? std::nanf("") : decode_finite(code, 4, 3);
}

[[noreturn]] void refuse_dtype(const SafetensorsEntry& entry, const std::string& remedy) {
  throw Error({.place = "",
               .key = brief(Json(entry.name)),
               .problem = "dtype " + entry.dtype,
               .remedy = remedy});
}

template <class Value>
std::vector<Value> integers_as(const SafetensorsEntry& entry, const Dtype& dtype) {
  const bool is_signed = dtype.kind == DtypeKind::signed_integer;
  switch (dtype.bits) {
    case 8:
      return is_signed ? cast_all<int8_t, Value>(entry) : cast_all<uint8_t, Value>(entry);
    case 16:
      return is_signed ? cast_all<int16_t, Value>(entry) : cast_all<uint16_t, Value>(entry);
    case 32:
      return is_signed ? cast_all<int32_t, Value>(entry) : cast_all<uint32_t, Value>(entry);
    default:
      return is_signed ? cast_all<int64_t, Value>(entry) : cast_all<uint64_t, Value>(entry);
  }
}

bool is_integer(const Dtype& dtype) {
  return dtype.kind == DtypeKind::signed_integer || dtype.kind == DtypeKind::unsigned_integer;
}

}  // namespace

std::vector<float> to_floats(const SafetensorsEntry& entry) {
  const Dtype& dtype = find_dtype(entry.dtype, "", entry.name);
  if (is_integer(dtype)) return integers_as<float>(entry, dtype);
  if (dtype.name == "F64") return cast_all<double, float>(entry);
  if (dtype.name == "F32") return cast_all<float, float>(entry);
  if (dtype.name == "BF16") {
    return convert_all<uint16_t, float>(entry, [](uint16_t code) {
      return std::bit_cast<float>(static_cast<uint32_t>(code) << 16);
    });
  }
  if (dtype.name == "F16") {
    return convert_all<uint16_t, float>(entry, [](uint16_t c) { return decode_ieee(c, 5, 10); });
  }
  if (dtype.name == "F8_E5M2") {
    return convert_all<uint8_t, float>(entry, [](uint8_t c) { return decode_ieee(c, 5, 2); });
  }
  if (dtype.name == "F8_E4M3") return convert_all<uint8_t, float>(entry, decode_e4m3fn);
  refuse_dtype(entry, "F64 F32 BF16 F16 F8_E4M3 F8_E5M2 or an integer dtype");
}

std::vector<int64_t> to_integers(const SafetensorsEntry& entry) {
  const Dtype& dtype = find_dtype(entry.dtype, "", entry.name);
  if (!is_integer(dtype) || dtype.name == "U64")
    refuse_dtype(entry, "U8 I8 U16 I16 U32 I32 or I64");
  return integers_as<int64_t>(entry, dtype);
}

}  // namespace ng::io
