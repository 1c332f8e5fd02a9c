// Typed access to the keys of a GGUF file.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

#include "base/error.h"
#include "io/gguf/gguf.h"

namespace ng::io {
namespace {

/// The value of a number that is an integer in the file.
std::optional<int64_t> integer_of(GgufType type, const char* bytes) {
  const auto read = [&](auto value) -> std::optional<int64_t> {
    std::memcpy(&value, bytes, sizeof value);
    if (std::in_range<int64_t>(value)) return static_cast<int64_t>(value);
    return {};
  };
  switch (type) {
    case GgufType::u8:
      return read(uint8_t{});
    case GgufType::i8:
      return read(int8_t{});
    case GgufType::u16:
      return read(uint16_t{});
    case GgufType::i16:
      return read(int16_t{});
    case GgufType::u32:
      return read(uint32_t{});
    case GgufType::i32:
      return read(int32_t{});
    case GgufType::u64:
      return read(uint64_t{});
    case GgufType::i64:
      return read(int64_t{});
    default:
      return {};
  }
}

std::optional<double> float_of(const GgufValue& value) {
  if (value.type == GgufType::f64) {
    double number = 0;
    std::memcpy(&number, value.bytes.data(), sizeof number);
    return number;
  }
  if (value.type != GgufType::f32) return {};
  float number = 0;
  std::memcpy(&number, value.bytes.data(), sizeof number);
  return number;
}

}  // namespace

const GgufValue* Gguf::find_key(std::string_view key) const {
  const auto found =
      std::find_if(keys_.begin(), keys_.end(), [&](const auto& pair) { return pair.first == key; });
  return found == keys_.end() ? nullptr : &found->second;
}

const GgufValue& Gguf::at(std::string_view key) const {
  const GgufValue* found = find_key(key);
  if (found == nullptr) refuse(key, "missing", "a file with this key");
  return *found;
}

int64_t Gguf::integer(std::string_view key, int64_t min, int64_t max) const {
  const GgufValue& value = at(key);
  const std::optional<int64_t> number = integer_of(value.type, value.bytes.data());
  if (number && *number >= min && *number <= max) return *number;
  refuse(key, number ? fmt::format("{}", *number) : "is no integer that fits 63 bits",
         fmt::format("a whole number from {} to {}", min, max));
}

int64_t Gguf::integer_or(std::string_view key, int64_t min, int64_t max, int64_t otherwise) const {
  return find_key(key) == nullptr ? otherwise : integer(key, min, max);
}

double Gguf::number_or(std::string_view key, double min, double max, double otherwise) const {
  const GgufValue* value = find_key(key);
  if (value == nullptr) return otherwise;
  const std::optional<double> number = float_of(*value);
  if (number && *number >= min && *number <= max) return *number;
  refuse(key, number ? fmt::format("{}", *number) : "is no f32 or f64",
         fmt::format("a number from {} to {}", min, max));
}

bool Gguf::boolean_or(std::string_view key, bool otherwise) const {
  const GgufValue* value = find_key(key);
  if (value == nullptr) return otherwise;
  if (value->type != GgufType::boolean) refuse(key, "is no bool", "true or false");
  return value->bytes[0] != 0;
}

std::string Gguf::text(std::string_view key) const {
  const GgufValue& value = at(key);
  if (value.type != GgufType::text) refuse(key, "is no text", "a string");
  return value.bytes;
}

std::string Gguf::text_or(std::string_view key, std::string_view otherwise) const {
  return find_key(key) == nullptr ? std::string(otherwise) : text(key);
}

const std::vector<std::string>& Gguf::texts(std::string_view key) const {
  const GgufValue& value = at(key);
  const bool is_list =
      value.type == GgufType::array && (value.element == GgufType::text || value.bytes.empty());
  if (!is_list) refuse(key, "is no list of texts", "an array of strings");
  return value.texts;
}

std::vector<int64_t> Gguf::integers(std::string_view key) const {
  const GgufValue* value = find_key(key);
  std::vector<int64_t> numbers;
  if (value == nullptr) return numbers;
  const size_t each = value->type == GgufType::array ? number_bytes(value->element) : 0;
  for (size_t at = 0; each > 0 && at < value->bytes.size(); at += each) {
    const std::optional<int64_t> number = integer_of(value->element, value->bytes.data() + at);
    if (!number) refuse(key, "is no list of integers", "an array of integers");
    numbers.push_back(*number);
  }
  return numbers;
}

std::vector<float> Gguf::floats(std::string_view key) const {
  const GgufValue* value = find_key(key);
  if (value == nullptr) return {};
  if (value->type != GgufType::array || value->element != GgufType::f32)
    refuse(key, "is no list of f32", "an array of f32");
  std::vector<float> numbers(value->bytes.size() / sizeof(float));
  std::memcpy(numbers.data(), value->bytes.data(), value->bytes.size());
  for (const float number : numbers)
    if (!std::isfinite(number)) refuse(key, fmt::format("holds {}", number), "finite numbers");
  return numbers;
}

}  // namespace ng::io
