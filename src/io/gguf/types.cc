#include <algorithm>
#include <array>
#include <cstring>

#include "base/error.h"
#include "base/json.h"
#include "io/gguf/gguf.h"

namespace ng::io {
namespace {

// [llama.cpp ggml/include/ggml.h: enum ggml_type]
constexpr std::array<GgufTensorType, 20> kTypes = {
    {{"F32", 0, 1, 4},       {"F16", 1, 1, 2},       {"Q4_0", 2, 32, 18},
     {"Q4_1", 3, 32, 20},    {"Q5_0", 6, 32, 22},    {"Q5_1", 7, 32, 24},
     {"Q8_0", 8, 32, 34},    {"Q2_K", 10, 256, 84},  {"Q3_K", 11, 256, 110},
     {"Q4_K", 12, 256, 144}, {"Q5_K", 13, 256, 176}, {"Q6_K", 14, 256, 210},
     {"I8", 24, 1, 1},       {"I16", 25, 1, 2},      {"I32", 26, 1, 4},
     {"I64", 27, 1, 8},      {"F64", 28, 1, 8},      {"BF16", 30, 1, 2},
     {"MXFP4", 39, 32, 17},  {"NVFP4", 40, 64, 36}}};

template <class Value>
std::string bytes_of(std::span<const Value> values) {
  std::string bytes(values.size_bytes(), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

template <class Value>
GgufValue number(GgufType type, Value value) {
  return {.type = type, .bytes = bytes_of(std::span<const Value>(&value, 1)), .texts = {}};
}

template <class Value>
GgufValue numbers(GgufType element, std::span<const Value> values) {
  return {.type = GgufType::array, .element = element, .bytes = bytes_of(values), .texts = {}};
}

}  // namespace

std::span<const GgufTensorType> gguf_tensor_types() { return kTypes; }

const GgufTensorType* find_gguf_type(std::string_view name) {
  const auto* found = std::find_if(kTypes.begin(), kTypes.end(),
                                   [&](const GgufTensorType& type) { return type.name == name; });
  return found == kTypes.end() ? nullptr : found;
}

size_t number_bytes(GgufType type) {
  constexpr std::array<uint8_t, 13> kBytes = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return kBytes.at(static_cast<size_t>(type));
}

GgufValue GgufValue::of_u32(uint32_t value) { return number(GgufType::u32, value); }
GgufValue GgufValue::of_f32(float value) { return number(GgufType::f32, value); }
GgufValue GgufValue::of_boolean(bool value) {
  return number(GgufType::boolean, static_cast<uint8_t>(value));
}
GgufValue GgufValue::of_text(std::string_view text) {
  return {.type = GgufType::text, .bytes = std::string(text), .texts = {}};
}
GgufValue GgufValue::of_texts(std::vector<std::string> texts) {
  return {
      .type = GgufType::array, .element = GgufType::text, .bytes = {}, .texts = std::move(texts)};
}
GgufValue GgufValue::of_i32s(std::span<const int32_t> values) {
  return numbers(GgufType::i32, values);
}
GgufValue GgufValue::of_f32s(std::span<const float> values) {
  return numbers(GgufType::f32, values);
}

}  // namespace ng::io
