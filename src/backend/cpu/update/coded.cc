#include "backend/cpu/update/coded.h"

#include <algorithm>
#include <limits>

#include "backend/cpu/update/coded_blocks.h"
#include "backend/cpu/update/stored.h"

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
  read_two_parts(reinterpret_cast<const Bf16*>(from.codes), reinterpret_cast<const Bf16*>(from.low),
                 from.count, values);
}

void write_parts(const CodedStretch& to, const float* values) {
  constexpr float kLargestOfBf16 = 0x1.FEp+127f;
  const float most = to.saturates ? kLargestOfBf16 : std::numeric_limits<float>::infinity();
  write_two_parts(most, values, to.count, reinterpret_cast<Bf16*>(to.codes),
                  reinterpret_cast<Bf16*>(to.low));
}

// ---------------------------------------------------------------- 256 values

bool is_positive(const CodedStretch& s) { return s.coding == Coding::positive_dynamic; }

void read_mapped(const CodedStretch& from, float* values) {
  const auto* const codes = reinterpret_cast<const uint8_t*>(from.codes);
  const float* const meant = DynamicMap::of(is_positive(from)).values().data();
  each_block(from, [&](int64_t block, int64_t first, int64_t count) {
    const float scale = from.scales[block];
    for (int64_t i = first; i < first + count; ++i) values[i] = meant[codes[i]] * scale;
  });
}

void write_mapped(const CodedStretch& to, const float* values) {
  auto* const codes = reinterpret_cast<uint8_t*>(to.codes);
  each_block(to, [&](int64_t block, int64_t first, int64_t count) {
    const float amax = block_range(values + first, count).most;
    to.scales[block] = amax == 0 ? 1.0f : amax;
    write_mapped_block(is_positive(to), 1.0f / to.scales[block], values + first, count,
                       codes + first);
  });
}

// ---------------------------------------------------------------- a power of the values

void read_expanded(const CodedStretch& from, float* values) {
  const auto* const codes = reinterpret_cast<const uint8_t*>(from.codes);
  each_block(from, [&](int64_t block, int64_t first, int64_t count) {
    read_expanded_block(
        {.scale = from.scales[block], .power = from.powers[block], .center = from.centers[block]},
        codes + first, count, values + first);
  });
}

void write_expanded(const CodedStretch& to, const float* values) {
  auto* const codes = reinterpret_cast<uint8_t*>(to.codes);
  each_block(to, [&](int64_t block, int64_t first, int64_t count) {
    const BlockRange range = block_range(values + first, count);
    const Expansion expansion = expansion_of(range.most, range.least);
    to.scales[block] = expansion.scale;
    to.powers[block] = expansion.power;
    to.centers[block] = expansion.center;
    write_expanded_block(expansion, values + first, count, codes + first);
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
  read_mapped(from, values);
}

void write_coded(const CodedStretch& to, const float* values) {
  if (to.coding == Coding::elements) return write_parts(to, values);
  if (to.coding == Coding::expanded) return write_expanded(to, values);
  write_mapped(to, values);
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
