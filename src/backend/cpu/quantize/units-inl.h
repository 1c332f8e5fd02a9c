// Rounding sixteen values to elements that int8 holds: integers, the multiples of the smallest
// magnitude (the unit). Values are scaled so that the unit is 1 or 2^16, which spares what
// element-inl.h does to end with the element's value; the elements are the same.
//
// Include after foreach_target.h and inside no namespace.

// Per-target include guard
#if defined(NG_BACKEND_CPU_QUANTIZE_UNITS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NG_BACKEND_CPU_QUANTIZE_UNITS_INL_H_
#undef NG_BACKEND_CPU_QUANTIZE_UNITS_INL_H_
#else
#define NG_BACKEND_CPU_QUANTIZE_UNITS_INL_H_
#endif

#include <type_traits>

#include "backend/cpu/quantize/element-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ng::cpu::HWY_NAMESPACE {

// The scales of a tile: [rows][blocks] with `stride` from one row to the next.
struct TileScales {
  const float* multipliers;
  const uint32_t* amax;  // null: not known
  int64_t stride;
  int64_t rows;
  int64_t blocks;
  float prescale;
};

// x · prescale · multiplier / unit with a rounding after each is x · (prescale · multiplier / unit)
// where the factors in brackets are exact and x · prescale does not overflow: the unit is a power
// of two, and the prescale is 1, or it is less and the multipliers are powers of two, none so small
// that the product is subnormal. Where x · prescale is subnormal, below 2^-126, it is less than
// 2^-16 units under multipliers to 2^100: zero either way. Blocks of zeros are zero by any finite
// multiplier.
constexpr float kLargestMultiplier = 0x1p100f, kSmallestMultiplier = 0x1p-100f;

HWY_INLINE Reach ReachOf(const TileScales& scales, float max) {
  F16 largest = Zero16(), smallest = Set16(1.0f), amax = Zero16();
  I16 fraction = Zero16<int32_t>();
  for (int64_t r = 0; r < scales.rows; ++r)
    for (int64_t b = 0; b < scales.blocks; b += kLanes) {
      const int64_t at = r * scales.stride + b, left = scales.blocks - b;
      F16 m = Load16(scales.multipliers + at, left);
      if (scales.amax != nullptr) {
        const F16 a = Bits<float>(Load16(scales.amax + at, left));
        m = Select(Eq(a, Zero16()), a, m);
        amax = Max(amax, Mul(Mul(a, Set16(scales.prescale)), m));
      }
      largest = Max(largest, m);
      smallest = Min(smallest, Select(Eq(m, Zero16()), smallest, m));
      fraction = Or(fraction, And(Bits<int32_t>(m), Set16(0x007FFFFF)));
    }
  const bool is_exact =
      scales.prescale == 1 || (scales.prescale < 1 && !AnyTrue(Gt(fraction, Zero16<int32_t>())) &&
                               !AnyTrue(Lt(smallest, Set16(kSmallestMultiplier))));
  if (!is_exact || AnyTrue(Gt(largest, Set16(kLargestMultiplier)))) return Reach::far;
  return scales.amax == nullptr || AnyTrue(Gt(amax, Set16(max))) ? Reach::clips : Reach::fits;
}

// Constants spread over the lanes. Scaled values are in units: of 1, stochastic of 2^16.
struct UnitRules {
  F16 factor;           // a block's multiplier times this scales a value
  F16 max;              // scaled
  I16 lowest_binade;    // scaled
  F16 magic;            // nearest: p · magic + x rounds x to the spacing of the binade p
  U16 lowest_exponent;  // stochastic: biased
};

template <Variant v>
HWY_INLINE UnitRules UnitRulesOf(const ElementGrid& grid, const EncodeTile& tile) {
  const float per_unit = (v.stochastic ? 0x1p16f : 1.0f) / tile.unit;
  const float lowest = grid.lowest_binade * per_unit;
  return {.factor = Set16(tile.prescale * per_unit),
          .max = Set16(grid.max * per_unit),
          .lowest_binade = SetBits(lowest),
          .magic = Set16(1.5f * pow2(23 - grid.mantissa_bits)),
          .lowest_exponent = Set16(float_bits(lowest) >> 23)};
}

// The multiplier of a block as its values are scaled by; that of a block of zeros stays finite.
HWY_INLINE F16 ScaleToUnits(const UnitRules& k, F16 multiplier) {
  return Mul(Min(multiplier, Set16(kLargestMultiplier)), k.factor);
}

// 1.5 · 2^23 + n ends in the bits of the integer n.
HWY_INLINE U16 LowInteger(F16 n) { return Bits<uint32_t>(Add(n, Set16(0x1.8p23f))); }

// Integers, each in one byte of its lane: the lowest, stochastic the third.
struct Integers {
  U16 lanes;
  M16 is_zero;
};

// Nearest even: adding 1.5 · 2^23 spacings leaves no bits below the spacing. [formats.md §2.1]
template <bool kFits>
HWY_INLINE Integers NearestUnits(const UnitRules& k, F16 y) {
  if constexpr (!kFits) y = Max(Min(y, k.max), Neg(k.max));
  const I16 exponent = And(Bits<int32_t>(y), SetBits(float_of_bits(kFloatInf)));
  const F16 magic = Mul(Bits<float>(Max(exponent, k.lowest_binade)), k.magic);
  const F16 rounded = Sub(Add(y, magic), magic);
  return {LowInteger(rounded), Eq(rounded, Zero16())};
}

// -x where y is negative.
HWY_INLINE U16 WithSignOf(const F16& y, const U16& x) {
  return ForParts<U16>([&](size_t p) HWY_ATTR {
#if HWY_TARGET == HWY_AVX3
    const __mmask16 negative = _mm512_movepi32_mask(_mm512_castps_si512(y.part[p].raw));
    return hn::Vec<U16::Tag>{
        _mm512_mask_sub_epi32(x.part[p].raw, negative, _mm512_setzero_si512(), x.part[p].raw)};
#elif HWY_TARGET == HWY_AVX2
    // Zero where y is +0, and then x is zero.
    return hn::Vec<U16::Tag>{_mm256_sign_epi32(x.part[p].raw, _mm256_castps_si256(y.part[p].raw))};
#else
    const U16::Tag d;
    const auto bits = hn::BitCast(I16::Tag(), y.part[p]);
    const auto is_negative = hn::MaskFromVec(hn::BitCast(d, hn::BroadcastSignBit(bits)));
    return hn::IfThenElse(is_negative, hn::Sub(hn::Zero(d), x.part[p]), x.part[p]);
#endif
  });
}

// floor(t·2^16) = n·2^16 + F with t = |y| / spacing: adding R carries into n iff F + R >= 2^16.
// Here y is in 2^-16 units, and R and the cut stand as many bits higher as the spacing of y's
// binade does; what that shifts out below R cannot carry. [formats.md §2.3]
template <bool kFits>
HWY_INLINE Integers StochasticUnits(const UnitRules& k, F16 y, U16 draw) {
  I16 magnitude = Bits<int32_t>(Abs(y));
  if constexpr (!kFits) magnitude = Min(magnitude, Bits<int32_t>(k.max));
  const U16 exponent = Bits<uint32_t>(ShiftRight<23>(Max(magnitude, k.lowest_binade)));
  const U16 binade = Sub(exponent, k.lowest_exponent);
  const U16 scaled = Bits<uint32_t>(Truncate(Bits<float>(magnitude)));
  const U16 sum = Add(scaled, ShiftLeftBy(draw, binade));
  const U16 cut = And(sum, ShiftLeftBy(Set16(0xFFFF0000u), binade));
  const M16 is_zero = MaskAs<float>(Eq(Bits<int32_t>(cut), Zero16<int32_t>()));
  return {WithSignOf(y, cut), is_zero};
}

// ---------------------------------------------------------------- what the encoders call

constexpr Variant WithReach(Variant v, Reach reach) {
  v.reach = reach;
  return v;
}

// encode(Variant v as a constant) for the reach of a tile.
template <Variant v, class Encode>
HWY_INLINE EncodeCounts EncodeByReach(const TileScales& scales, float max, const Encode& encode) {
  switch (ReachOf(scales, max)) {
    case Reach::fits:
      return encode(VariantConstant<WithReach(v, Reach::fits)>());
    case Reach::clips:
      return encode(VariantConstant<WithReach(v, Reach::clips)>());
    default:
      return encode(VariantConstant<v>());
  }
}

template <Variant v>
using RulesFor = std::conditional_t<v.in_units(), UnitRules, Rules>;

template <Variant v>
HWY_INLINE RulesFor<v> RulesForTile(const ElementGrid& grid, const EncodeTile& tile) {
  if constexpr (v.in_units())
    return UnitRulesOf<v>(grid, tile);
  else
    return RulesOf(grid, tile);
}

// What the values of a block are multiplied by.
template <Variant v>
HWY_INLINE F16 ScaleOf(const RulesFor<v>& k, F16 multiplier) {
  if constexpr (v.in_units())
    return ScaleToUnits(k, multiplier);
  else
    return multiplier;
}

// Integers in the lowest byte of each lane, or in the third (Variant::in_third_byte).
template <Variant v>
HWY_INLINE U16 EncodeInteger(const RulesFor<v>& k, F16 value, F16 scale, U16 draw, bool counted,
                             LaneCounts& counts) {
  if constexpr (!v.in_units()) {
    const F16 y = Scaled<v>(k, value, scale);
    const F16 element = RoundElement<v>(k, y, draw);
    if (counted) CountElement(k, value, y, element, counts);
    return LowInteger(Mul(element, k.per_unit));
  } else {
    constexpr bool kFits = v.reach == Reach::fits;
    const F16 y = Mul(value, scale);
    Integers n;
    if constexpr (v.stochastic)
      n = StochasticUnits<kFits>(k, y, draw);
    else
      n = NearestUnits<kFits>(k, y);
    if (!counted) return n.lanes;
    if constexpr (!kFits)
      counts.saturated =
          CountWhere(counts.saturated, Gt(Bits<int32_t>(Abs(y)), Bits<int32_t>(k.max)));
    const M16 is_flushed = AndNot(Eq(value, Zero16()), n.is_zero);
    counts.flushed = CountWhere(counts.flushed, MaskAs<int32_t>(is_flushed));
    return n.lanes;
  }
}

}  // namespace ng::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
