#include "backend/cpu/update/coded.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/cpu/update/stored.h"
#include "format/dynamic_map.h"
#include "format/expansion.h"
#include "math/bf16.h"

namespace ng::cpu {
namespace {

// body(index of a block, its first value, how many it has)
template <class Body>
void each_block(const CodedStretch& s, const Body& body) {
  for (int64_t first = 0; first < s.count; first += s.block)
    body(first / s.block, first, std::min(s.block, s.count - first));
}

// ---------------------------------------------------------------- two parts

void read_parts(const CodedStretch& from, float* values) {
  const auto* const high = reinterpret_cast<const Bf16*>(from.codes);
  const auto* const low = reinterpret_cast<const Bf16*>(from.low);
  for (int64_t i = 0; i < from.count; ++i) values[i] = widened(high[i]) + widened(low[i]);
}

void write_parts(const CodedStretch& to, const float* values) {
  auto* const high = reinterpret_cast<Bf16*>(to.codes);
  auto* const low = reinterpret_cast<Bf16*>(to.low);
  constexpr float kLargestOfBf16 = 0x1.FEp+127f;
  const float most = to.saturates ? kLargestOfBf16 : std::numeric_limits<float>::infinity();
  for (int64_t i = 0; i < to.count; ++i) {
    high[i] = to_bf16(std::clamp(values[i], -most, most));
    low[i] = to_bf16(std::clamp(values[i] - widened(high[i]), -most, most));
  }
}

// ---------------------------------------------------------------- 256 values

void read_mapped(const CodedStretch& from, const DynamicMap& map, float* values) {
  const auto* const codes = reinterpret_cast<const uint8_t*>(from.codes);
  const float* const meant = map.values().data();
  each_block(from, [&](int64_t block, int64_t first, int64_t count) {
    const float scale = from.scales[block];
    for (int64_t i = first; i < first + count; ++i) values[i] = meant[codes[i]] * scale;
  });
}

void write_mapped(const CodedStretch& to, const DynamicMap& map, const float* values) {
  auto* const codes = reinterpret_cast<uint8_t*>(to.codes);
  each_block(to, [&](int64_t block, int64_t first, int64_t count) {
    float amax = 0;
    for (int64_t i = first; i < first + count; ++i) amax = std::max(amax, std::fabs(values[i]));
    const float scale = amax == 0 ? 1.0f : amax, inverse = 1.0f / scale;
    to.scales[block] = scale;
    for (int64_t i = first; i < first + count; ++i) codes[i] = map.code(values[i], inverse);
  });
}

// ---------------------------------------------------------------- a power of the values

void read_expanded(const CodedStretch& from, float* values) {
  const auto* const codes = reinterpret_cast<const uint8_t*>(from.codes);
  each_block(from, [&](int64_t block, int64_t first, int64_t count) {
    const ExpandedValues meant(
        {.scale = from.scales[block], .power = from.powers[block], .center = from.centers[block]});
    for (int64_t i = first; i < first + count; ++i) values[i] = meant.value(codes[i]);
  });
}

void write_expanded(const CodedStretch& to, const float* values) {
  auto* const codes = reinterpret_cast<uint8_t*>(to.codes);
  each_block(to, [&](int64_t block, int64_t first, int64_t count) {
    constexpr float kNone = std::numeric_limits<float>::infinity();
    float most = 0, least = kNone;
    for (int64_t i = first; i < first + count; ++i) {
      const float a = std::fabs(values[i]);
      most = std::max(most, a);
      least = std::min(least, a == 0 ? kNone : a);
    }
    const Expansion expansion = expansion_of(most, least == kNone ? 0 : least);
    to.scales[block] = expansion.scale;
    to.powers[block] = expansion.power;
    to.centers[block] = expansion.center;
    const ExpandedLimits limits(expansion);
    for (int64_t i = first; i < first + count; ++i) codes[i] = limits.code(values[i]);
  });
}

}  // namespace

void set_coding(Operand& cast, Coding coding) {
  cast.expand = coding == Coding::expanded;
  cast.is_positive = coding == Coding::positive_dynamic;
  if (cast.is_positive || coding == Coding::dynamic) cast.map = CodeMap::dynamic;
}

void read_coded(const CodedStretch& from, float* values) {
  if (from.coding == Coding::elements) return read_parts(from, values);
  if (from.coding == Coding::expanded) return read_expanded(from, values);
  read_mapped(from, DynamicMap::of(from.coding == Coding::positive_dynamic), values);
}

void write_coded(const CodedStretch& to, const float* values) {
  if (to.coding == Coding::elements) return write_parts(to, values);
  if (to.coding == Coding::expanded) return write_expanded(to, values);
  write_mapped(to, DynamicMap::of(to.coding == Coding::positive_dynamic), values);
}

CodedStretch StoredCodec::coded(const Stretch& at) const {
  CodedStretch stretch{.coding = view_.scales.coding,
                       .codes = memory(at),
                       .count = at.count,
                       .block = block_cols(),
                       .saturates = cast_.overflow == Overflow::saturate};
  if (view_.low != nullptr) {
    stretch.low = view_.low + (stretch.codes - view_.data);
    return stretch;
  }
  const int64_t first = scale_at(at);
  stretch.scales = reinterpret_cast<float*>(view_.scales.data) + first;
  if (view_.scales.coding != Coding::expanded) return stretch;
  stretch.powers = view_.scales.power + first;
  stretch.centers = view_.scales.center + first;
  return stretch;
}

}  // namespace ng::cpu
