#include "io/gguf/blocks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "format/codec.h"
#include "format/operand.h"
#include "format/packing.h"
#include "format/scale.h"
#include "io/gguf/quants.h"

namespace ng::io {
namespace {

constexpr int64_t kQ8Values = 32;
constexpr int64_t kQ8Bytes = 34;
constexpr float kQ8Largest = 127.0f;
constexpr uint32_t kSkippedScale = 0x7F;  // of NVFP4

const ElementCodec& half() {
  static const ElementCodec kCodec(element_format("float16"));
  return kCodec;
}

/// E2M1, -0 as +0.
std::array<float, 16> element_values() {
  const std::vector<float> table = decode_table(element_format("float4_e2m1fn"));
  std::array<float, 16> values{};
  for (size_t code = 0; code < values.size(); ++code)
    values[code] = table[code] == 0 ? 0.0f : table[code];
  return values;
}

float nvfp4_scale(uint8_t code) {
  const uint32_t magnitude = code & 0x7Fu;  // the sign is not looked at
  return magnitude == kSkippedScale ? 0.0f : decode_float(e4m3_grid(), magnitude);
}

void decode_fp4(const GgufBlock& kind, float (*scale_of)(uint8_t),
                std::span<const std::byte> blocks, std::span<float> values) {
  static const std::array<float, 16> kElements = element_values();
  const size_t count = values.size();
  std::vector<uint16_t> codes(count);
  const auto each = static_cast<size_t>(kind.elements / kind.scales);
  std::vector<uint8_t> scales(count / each);
  unpack_gguf(kind, {reinterpret_cast<const uint8_t*>(blocks.data()), blocks.size()}, codes,
              scales);
  for (size_t i = 0; i < count; ++i) values[i] = kElements[codes[i]] * scale_of(scales[i / each]);
}

void decode_q8_0(std::span<const std::byte> blocks, std::span<float> values) {
  const std::byte* from = blocks.data();
  for (auto to = values.begin(); to != values.end(); to += kQ8Values, from += kQ8Bytes) {
    uint16_t code = 0;
    std::array<int8_t, kQ8Values> q{};
    std::memcpy(&code, from, sizeof code);
    std::memcpy(q.data(), from + sizeof code, q.size());
    const float d = half().decode(code);
    std::transform(q.begin(), q.end(), to, [&](int8_t each) { return d * each; });
  }
}

void decode_quants(DecodeQuants decode, const GgufTensorType& type,
                   std::span<const std::byte> blocks, std::span<float> values) {
  const auto* from = reinterpret_cast<const uint8_t*>(blocks.data());
  for (size_t at = 0; at < values.size(); at += static_cast<size_t>(type.block)) {
    decode(from, &values[at]);
    from += type.bytes;
  }
}

}  // namespace

void decode_gguf_blocks(const GgufTensorType& type, std::span<const std::byte> blocks,
                        std::span<float> values) {
  NG_CHECK(std::ssize(values) % type.block == 0 &&
               std::ssize(blocks) == std::ssize(values) / type.block * type.bytes,
           type.name, blocks.size(), values.size());
  if (type.name == "Q8_0") return decode_q8_0(blocks, values);
  if (type.name == "MXFP4")
    return decode_fp4(
        kGgufMxfp4, [](uint8_t code) { return e8m0_value(code); }, blocks, values);
  if (type.name == "NVFP4") return decode_fp4(kGgufNvfp4, nvfp4_scale, blocks, values);
  const DecodeQuants decode = find_quants(type.name);
  NG_CHECK(decode != nullptr, type.name);
  decode_quants(decode, type, blocks, values);
}

bool fits_q8_0(float amax) {
  static const float kLargestScale = max_value(element_format("float16"));
  return amax / kQ8Largest <= kLargestScale;
}

void encode_q8_0(std::span<const float> values, std::span<std::byte> blocks) {
  NG_CHECK(std::ssize(values) % kQ8Values == 0 &&
               std::ssize(blocks) == std::ssize(values) / kQ8Values * kQ8Bytes,
           blocks.size(), values.size());
  std::byte* to = blocks.data();
  for (auto from = values.begin(); from != values.end(); from += kQ8Values, to += kQ8Bytes) {
    float amax = 0;
    for (int64_t i = 0; i < kQ8Values; ++i) amax = std::max(amax, std::fabs(from[i]));
    const float d = amax / kQ8Largest;
    // Of values so small that d's inverse is infinite; d itself is 0 in F16.
    const float inverse = d != 0 && 1.0f / d <= kFloatMax ? 1.0f / d : 0.0f;
    const auto code = static_cast<uint16_t>(half().encode(d));
    std::array<int8_t, kQ8Values> q{};
    std::transform(from, from + kQ8Values, q.begin(),
                   [&](float x) { return static_cast<int8_t>(std::round(x * inverse)); });
    std::memcpy(to, &code, sizeof code);
    std::memcpy(to + sizeof code, q.data(), q.size());
  }
}

}  // namespace ng::io
