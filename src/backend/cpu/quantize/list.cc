// Encoding a tile whose blocks have either element of a list.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/quantize/list.cc"
#include <hwy/foreach_target.h>  // once per instruction set
#include <hwy/highway.h>

#include "backend/cpu/quantize/list-inl.h"
#include "backend/cpu/simd/bf16-inl.h"
#include "base/error.h"

HWY_BEFORE_NAMESPACE();
namespace ng::cpu::HWY_NAMESPACE {

template <bool kStochastic>
constexpr Variant kFirstVariant = {
    .kind = Kind::small, .stochastic = kStochastic, .form = ElementForm::fp32};

// Both elements are made and one is taken: which is no branch that a CPU could foresee.
template <bool kStochastic, class Value>
EncodeCounts EncodeListOf(const ElementGrid& grid, const EncodeTile& tile, const Value* values) {
  constexpr Variant v = kFirstVariant<kStochastic>;
  const Rules k = RulesOf(grid, tile);
  const OtherRules other = OtherRulesOf(*tile.other);
  LaneCounts counts = NoCounts();
  for (int64_t r = 0; r < tile.rows; ++r) {
    const int64_t scales = r / tile.rows_per_multiplier * tile.multiplier_stride;
    const Value* x = values + r * tile.values.stride();
    auto* const to = static_cast<float*>(tile.out) + r * tile.out_stride;
    for (int64_t c = 0; c < tile.cols; c += kLanes) {
      const int64_t block = scales + c / tile.block;
      const F16 value = Load16(x + c);
      const F16 y = Scaled<v>(k, value, Set16(tile.multipliers[block]));
      U16 draw = Zero16<uint32_t>();
      if constexpr (kStochastic)
        draw = LoadHalves16<uint32_t>(tile.draws + r * tile.draw_stride + c);
      const M16 is_other = Lt(Set16(tile.decode[block]), Zero16());
      const F16 element =
          Select(is_other, RoundOther<kStochastic>(other, y, draw), RoundElement<v>(k, y, draw));
      Store16(element, to + c);
      const int64_t counted = tile.counted_cols - c;
      if (counted >= kLanes) {
        CountElement(k, value, y, element, counts);
      } else if (counted > 0) {
        const F16 some = Load16(x + c, counted);  // and zeros, which are not counted
        CountElement(k, some, Scaled<v>(k, some, Set16(tile.multipliers[block])), element, counts);
      }
    }
  }
  return TotalOf(counts);
}

template <bool kStochastic>
EncodeCounts EncodeListAs(const ElementGrid& grid, const EncodeTile& tile) {
  return tile.values.is_bf16() ? EncodeListOf<kStochastic>(grid, tile, tile.values.bf16())
                               : EncodeListOf<kStochastic>(grid, tile, tile.values.fp32());
}

EncodeCounts EncodeList(const ElementGrid& grid, const EncodeTile& tile) {
  return tile.draws == nullptr ? EncodeListAs<false>(grid, tile) : EncodeListAs<true>(grid, tile);
}

}  // namespace ng::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ng::cpu {
HWY_EXPORT(EncodeList);

EncodeCounts encode_list(const ElementGrid& grid, const EncodeTile& tile) {
  NG_CHECK(tile.form == ElementForm::fp32 && tile.block % 16 == 0 && tile.cols % 16 == 0,
           tile.block, tile.cols);
  return HWY_DYNAMIC_DISPATCH(EncodeList)(grid, tile);
}

}  // namespace ng::cpu
#endif
