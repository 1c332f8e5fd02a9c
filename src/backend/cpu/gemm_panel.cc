#include "backend/cpu/gemm_panel.h"

#include <algorithm>

#include "backend/cpu/gemm_pack.h"
#include "base/error.h"

namespace ng::cpu {
namespace {

// Products of two scales in this range, times any block sum, stay inside FP32's normal range.
constexpr float kSmallestPlain = 0x1p-60f;
constexpr float kLargestPlain = 0x1p60f;
// Values shifted left by up to 3 bits on both sides: 128 · (12 · 8)² < 2^24, exact in FP32.
constexpr float kWidestGroup = 8.0f;

bool is_plain(float scale) { return scale >= kSmallestPlain && scale <= kLargestPlain; }

// A block of zeros has E8M0 code 0, 2^-127; any scale gives the same sums, so it may use 1.
bool is_zero_block(const PanelSource& source, int64_t row, int64_t block) {
  if (!source.power_of_two || source.scales[row * source.blocks + block] != 0x1p-127f) return false;
  const int64_t at = row * source.stride + block * source.block;
  const int64_t count = std::min(source.block, source.k - block * source.block);
  const auto all_zero = [=](const auto* elements, auto magnitude) {
    return std::all_of(elements + at, elements + at + count,
                       [=](auto bits) { return (bits & magnitude) == 0; });
  };
  if (source.values == PanelSource::Values::int8)
    return all_zero(static_cast<const uint8_t*>(source.data), 0xFF);
  return all_zero(static_cast<const uint16_t*>(source.data), 0x7FFF);
}

// Scales of one row, one per segment; zero blocks get 1.
void pack_row_scales(const PanelSource& source, const PanelPlace& place, const Panel& panel,
                     int64_t i) {
  const int64_t segments = (place.count + source.segment - 1) / source.segment;
  const int64_t row = place.row + i;
  for (int64_t s = 0; s < segments; ++s) {
    const int64_t block = (place.k + s * source.segment) / source.block;
    float scale = 1.0f;
    if (row < source.rows && !is_zero_block(source, row, block))
      scale = source.scales[row * source.blocks + block];
    panel.scales[s * place.width + i] = scale;
    if (source.power_of_two && !is_plain(scale)) panel.plain[s] = 0;
  }
}

// The smallest and the largest scale among the blocks of one row and group that are not all zeros.
struct ScaleRange {
  float smallest = kLargestPlain * 2;
  float largest = 0.0f;
  bool is_number = true;
};

ScaleRange range_of_group(const PanelSource& source, int64_t row, int64_t first, int64_t blocks) {
  ScaleRange range;
  for (int64_t block = first; block < first + blocks; ++block) {
    if (is_zero_block(source, row, block)) continue;
    const float scale = source.scales[row * source.blocks + block];
    range.is_number = range.is_number && scale == scale;
    range.smallest = std::min(range.smallest, scale);
    range.largest = std::max(range.largest, scale);
  }
  if (range.largest == 0.0f && range.is_number) range = {.smallest = 1.0f, .largest = 1.0f};
  return range;
}

// One group of four blocks: aligned, every row gets one scale and its blocks a shift.
void pack_group(const PanelSource& source, const PanelPlace& place, const Panel& panel, int64_t s) {
  const int64_t blocks = std::min<int64_t>(4, (place.count - s * 32 + 31) / 32);
  const int64_t first = place.k / 32 + s;
  const int64_t rows = std::clamp<int64_t>(source.rows - place.row, 0, place.width);
  float* scales = panel.scales + s * place.width;
  float* shifts = panel.shifts + s * place.width;
  std::fill(shifts, shifts + blocks * place.width, 1.0f);
  std::fill(scales, scales + blocks * place.width, 1.0f);
  bool aligned = true;
  for (int64_t i = 0; i < rows; ++i) {
    const ScaleRange range = range_of_group(source, place.row + i, first, blocks);
    aligned = aligned && range.is_number && is_plain(range.smallest) && is_plain(range.largest) &&
              range.largest <= kWidestGroup * range.smallest;
    scales[i] = range.smallest;
  }
  for (int64_t b = blocks - 1; b >= 0; --b) {
    panel.plain[s + b] = aligned ? 1 : 0;
    for (int64_t i = 0; i < rows; ++i) {
      const float scale = source.scales[(place.row + i) * source.blocks + first + b];
      float* shared = scales + b * place.width + i;
      if (aligned) {
        *shared = scales[i];
        if (scale >= scales[i]) shifts[b * place.width + i] = scale / scales[i];
      } else {
        *shared = scale;
      }
    }
  }
}

void pack_scales(const PanelSource& source, const PanelPlace& place, const Panel& panel) {
  if (source.use == ScaleUse::groups) {
    for (int64_t k = 0; k < place.count; k += kGroup) pack_group(source, place, panel, k / 32);
  } else if (source.use == ScaleUse::segments) {
    const int64_t segments = (place.count + source.segment - 1) / source.segment;
    std::fill(panel.plain, panel.plain + segments, uint8_t{1});
    for (int64_t i = 0; i < place.width; ++i) pack_row_scales(source, place, panel, i);
  } else if (source.use == ScaleUse::decoded) {
    const int64_t first = place.k / source.block;
    const int64_t last = (place.k + place.count - 1) / source.block;
    for (int64_t block = first; block <= last; ++block)
      for (int64_t i = 0; i < place.width; ++i)
        panel.shifts[(block - first) * place.width + i] =
            place.row + i < source.rows ? source.scales[(place.row + i) * source.blocks + block]
                                        : 1.0f;
  }
}

}  // namespace

PanelSource panel_source(const PackedOperand& packed, ScaleUse use, int64_t segment) {
  const OperandSpec& spec = packed.spec;
  PanelSource source{.rows = spec.rows, .k = spec.k_padded(), .use = use, .segment = segment};
  using Values = PanelSource::Values;
  if (is_read_in_place(spec)) {
    source.values = spec.cast.is_fp32()                     ? Values::fp32
                    : spec.cast.element->exponent_bits == 8 ? Values::to_bf16
                                                            : Values::to_fp16;
    source.saturate = spec.cast.overflow == Overflow::saturate;
    source.transposed = spec.contract == Contract::rows;
    source.data = packed.source.data;
    source.stride = packed.source.stride;
    source.k = spec.k;
    return source;
  }
  const PackedLayout layout = packed_layout(spec);
  const auto* tensor = reinterpret_cast<const float*>(packed.storage + layout.tensor_at);
  source.values = layout.form == ElementForm::int8   ? Values::int8
                  : layout.form == ElementForm::bf16 ? Values::bf16_bits
                                                     : Values::fp32;
  source.unit = layout.unit;
  source.data = packed.storage + layout.elements_at;
  source.stride = spec.k_padded();
  source.power_of_two = spec.cast.scale == ScaleKind::e8m0;
  source.scales = reinterpret_cast<const float*>(packed.storage + layout.scales_at);
  source.blocks = layout.blocks;
  source.block = std::max<int64_t>(layout.block, 1);
  source.row_scale = is_blocked(spec) ? nullptr : source.scales;
  source.tensor_scale = tensor;
  return source;
}

int64_t shift_values(const PanelSource& source, int width, int64_t count) {
  return (count / source.block + 2) * width;
}

void pack_panel(const PanelSource& source, const PanelPlace& place, const Panel& panel) {
  if (place.count == 0) return;
  pack_scales(source, place, panel);
  const bool shifted = source.use == ScaleUse::decoded || source.use == ScaleUse::groups;
  pack_elements(source, place, shifted ? panel.shifts : nullptr, {panel.elements, 1, 0});
}

void pack_transposed(const PanelSource& source, const PanelPlace& place, const PanelRun& run) {
  NG_CHECK(source.transposed);
  if (place.count > 0) pack_elements(source, place, nullptr, run);
}

}  // namespace ng::cpu
