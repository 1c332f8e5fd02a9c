#include "backend/cpu/gemm/panel.h"

#include <algorithm>

#include "backend/cpu/gemm/pack.h"
#include "backend/cpu/gemm/scales.h"
#include "backend/cpu/gemm/words.h"
#include "base/error.h"

namespace ng::cpu {

namespace {

// BF16 is read as it lies unless infinities are cut to the largest value.
PanelSource::Values values_in_place(const Operand& cast, bool from_bf16) {
  using Values = PanelSource::Values;
  if (cast.is_fp32()) return from_bf16 ? Values::bf16_bits : Values::fp32;
  if (cast.element->exponent_bits != 8) return Values::to_fp16;
  const bool as_it_lies = from_bf16 && cast.overflow == Overflow::special;
  return as_it_lies ? Values::bf16_bits : Values::to_bf16;
}

}  // namespace

PanelSource panel_source(const PackedOperand& packed, ScaleUse use, int64_t segment) {
  const OperandSpec& spec = packed.spec;
  PanelSource source{.rows = spec.rows, .k = spec.k_padded(), .use = use, .segment = segment};
  using Values = PanelSource::Values;
  if (is_read_in_place(spec)) {
    source.from_bf16 = packed.source.is(bf16_format());
    source.saturate = spec.cast.overflow == Overflow::saturate;
    source.values = values_in_place(spec.cast, source.from_bf16);
    source.transposed = spec.contract == Contract::rows;
    source.data = packed.source.data;
    source.stride = packed.source.stride;
    source.k = spec.k;
    return source;
  }
  const PackedLayout layout = packed_layout(spec);
  source.values = layout.form == ElementForm::int8   ? Values::int8
                  : layout.form == ElementForm::bf16 ? Values::bf16_bits
                                                     : Values::fp32;
  source.unit = layout.unit;
  source.interleaved = layout.interleaved;
  source.data = packed.storage + layout.elements_at;
  source.stride = spec.k_padded();
  source.power_of_two = spec.cast.scale == ScaleKind::e8m0;
  source.shares_scales = is_blocked(spec) && spec.cast.block.rows % 16 == 0;
  source.scales = reinterpret_cast<const float*>(packed.storage + layout.scales_at);
  source.blocks = layout.blocks;
  source.block = std::max<int64_t>(layout.block, 1);
  source.row_scale = is_blocked(spec) ? nullptr : source.scales;
  if (spec.cast.scale != ScaleKind::e4m3) return source;  // of others the tensor's is 1
  const auto* second = reinterpret_cast<const float*>(packed.storage + layout.tensor_at);
  const Block& region = spec.cast.tensor_block;
  switch (region.kind) {
    case Block::Kind::tensor:
      source.tensor_scale = second;
      break;
    case Block::Kind::row:
      source.row_scale = second;
      break;
    case Block::Kind::tile:
      source.region_scales = second;
      source.region_rows = region.rows;
      source.region_cols = region.cols;
      source.regions = tensor_scale_shape(spec.cast, spec.rows, spec.k_padded()).cols;
  }
  return source;
}

int64_t shift_values(const PanelSource& source, int width, int64_t count) {
  return (count / source.block + 2) * width;
}

void pack_panel(const PanelSource& source, const PanelPlace& place, const Panel& panel) {
  if (place.count == 0) return;
  const int64_t exists = std::max<int64_t>(source.k - place.k, 0);
  if (place.count > exists && !source.is_read_in_place()) {
    NG_CHECK(source.units == Units::fp32);  // sums that fill up K are made of it
    PanelPlace inside = place;
    inside.count = exists;
    pack_panel(source, inside, panel);
    std::fill(panel.elements + exists * place.width, panel.elements + place.count * place.width,
              0.0f);
    return;
  }
  pack_scales(source, place, panel);
  if (source.units == Units::int8) return pack_words(source, place, panel);
  if (source.units == Units::int16 && source.interleaved)
    return pack_int16_pairs(source, place, panel.elements);
  const bool shifted = source.use == ScaleUse::decoded || source.use == ScaleUse::groups;
  const float* factors = shifted ? panel.shifts : nullptr;
  if (source.interleaved)
    pack_interleaved(source, place, factors, panel.elements);
  else
    pack_elements(source, place, factors, {panel.elements, 1, 0});
}

void pack_transposed(const PanelSource& source, const PanelPlace& place, const PanelRun& run) {
  NG_CHECK(source.transposed);
  if (place.count > 0) pack_elements(source, place, nullptr, run);
}

}  // namespace ng::cpu
