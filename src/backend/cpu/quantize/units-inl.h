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

// Bits that are zero where y is zero or subnormal.
HWY_INLINE I16 ExponentOf(F16 y) {
  return And(Bits<int32_t>(y), SetBits(float_of_bits(kFloatInf)));
}

// Nearest even: adding 1.5 · 2^23 spacings leaves no bits below the spacing. [formats.md §2.1]
HWY_INLINE Integers NearestUnits(const UnitRules& k, F16 y) {
  const F16 magic = Mul(Bits<float>(Max(ExponentOf(y), k.lowest_binade)), k.magic);
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

// A value in units as it is rounded: to nearest within the largest element, stochastic magnitudes
// are clipped.
template <Variant v>
HWY_INLINE F16 Within(const UnitRules& k, F16 y) {
  return v.fits() || v.stochastic ? y : Max(Min(y, k.max), Neg(k.max));
}

template <Variant v>
HWY_INLINE Integers IntegersOf(const UnitRules& k, F16 within, U16 draw) {
  if constexpr (v.stochastic)
    return StochasticUnits<v.fits()>(k, within, draw);
  else
    return NearestUnits(k, within);
}

template <Variant v>
HWY_INLINE void CountClipped(const UnitRules& k, F16 y, F16 within, LaneCounts& counts) {
  if constexpr (v.fits()) return;
  const Mask16<int32_t> is_clipped = v.stochastic ? Gt(Bits<int32_t>(Abs(y)), Bits<int32_t>(k.max))
                                                  : MaskAs<int32_t>(Differ(y, within));
  counts.saturated = CountWhere(counts.saturated, is_clipped);
}

// What is flushed of values in units are the zeros among the integers beyond those among the
// values, which there are none of where `least` stays above zero; where it does not they are
// counted. Mostly that is half of what a look at each value beside its integer costs.
struct ZeroCounts {
  uint64_t integers;
  I16 least;
};
HWY_INLINE ZeroCounts NoZeros() { return {0, Set16(static_cast<int32_t>(kFloatInf))}; }
HWY_INLINE bool MayBeZero(const ZeroCounts& zeros) {
  return AnyTrue(Eq(zeros.least, Zero16<int32_t>()));
}

// With what is flushed of values (rows, cols) in whole vectors that `zeros` are of.
template <class Value>
HWY_INLINE EncodeCounts TotalOf(const LaneCounts& counts, const ZeroCounts& zeros,
                                const Value* values, int64_t stride, int64_t rows, int64_t cols) {
  EncodeCounts total = TotalOf(counts);
  total.flushed += zeros.integers;
  if (MayBeZero(zeros))
    for (int64_t r = 0; r < rows; ++r) total.flushed -= CountZeros(values + r * stride, cols);
  return total;
}

// As EncodeInteger, counting all but what is flushed.
template <Variant v>
HWY_INLINE U16 EncodeUnits(const UnitRules& k, F16 value, F16 scale, U16 draw, I16& least,
                           LaneCounts& counts) {
  const F16 y = Mul(value, scale), within = Within<v>(k, y);
  CountClipped<v>(k, y, within, counts);
  // By what rounding needs, too.
  least = Min(least, v.stochastic ? Bits<int32_t>(Abs(within)) : ExponentOf(within));
  return IntegersOf<v>(k, within, draw).lanes;
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
    const F16 y = Mul(value, scale), within = Within<v>(k, y);
    const Integers n = IntegersOf<v>(k, within, draw);
    if (!counted) return n.lanes;
    CountClipped<v>(k, y, within, counts);
    const M16 is_flushed = AndNot(Eq(value, Zero16()), n.is_zero);
    counts.flushed = CountWhere(counts.flushed, MaskAs<int32_t>(is_flushed));
    return n.lanes;
  }
}

// Words of four integers, one in a byte of each argument's lanes: the lowest, or the third.
template <bool kThird>
HWY_INLINE U16 WordOf(U16 n0, U16 n1, U16 n2, U16 n3) {
#if HWY_TARGET == HWY_SCALAR
  constexpr int kShift = kThird ? 16 : 0;
  const auto byte = [](U16 n) HWY_ATTR { return And(ShiftRight<kShift>(n), Set16(0xFFu)); };
  return Or(Or(byte(n0), ShiftLeft<8>(byte(n1))),
            Or(ShiftLeft<16>(byte(n2)), ShiftLeft<24>(byte(n3))));
#else
  // Halves of 16 bits: two of every word come from one lane, two from another.
  const auto halves = [](U16 even, U16 odd) HWY_ATTR {
    const U16 low = kThird ? ShiftRight<16>(even) : even;
    const U16 high = kThird ? odd : ShiftLeft<16>(odd);
    return ForParts<U16>([&](size_t p) HWY_ATTR {
      const U16::Tag d;
      const hn::Repartition<uint16_t, U16::Tag> d16;
      return hn::BitCast(
          d, hn::OddEven(hn::BitCast(d16, high.part[p]), hn::BitCast(d16, low.part[p])));
    });
  };
  const U16 odd_bytes = ForParts<U16>([n = halves(n1, n3)](size_t p) HWY_ATTR {
    const U16::Tag d;
    const hn::Repartition<uint16_t, U16::Tag> d16;
    return hn::BitCast(d, hn::ShiftLeft<8>(hn::BitCast(d16, n.part[p])));
  });
  return Or(And(halves(n0, n2), Set16(0x00FF00FFu)), odd_bytes);
#endif
}

// How many of the 64 integers of words from WordOf are zero.
HWY_INLINE uint64_t CountZeros(U16 words) {
  uint64_t zeros = 0;
#if HWY_TARGET == HWY_SCALAR
  for (const auto& part : words.part)
    for (uint32_t word = hn::GetLane(part), i = 0; i < 4; ++i)
      zeros += (word >> 8 * i & 0xFF) == 0 ? 1 : 0;
#else
  const hn::Repartition<uint8_t, U16::Tag> d;
  for (const auto& part : words.part)
    zeros += hn::CountTrue(d, hn::Eq(hn::BitCast(d, part), hn::Zero(d)));
#endif
  return zeros;
}

// The 64 integers of words from WordOf in the order of its arguments, one after another.
HWY_INLINE void StoreInOrder(U16 words, std::byte* out) {
#if HWY_TARGET == HWY_SCALAR
  for (int i = 0; i < 4 * kLanes; ++i)
    out[i] = static_cast<std::byte>(hn::GetLane(words.part[i % kLanes]) >> i / kLanes * 8);
#else
  // Four lanes of an argument meet in a word of 128 bits, then all of them in their order.
  const __m128i four_by_four = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
#if HWY_TARGET == HWY_AVX3
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m512i quads =
      _mm512_shuffle_epi8(words.part[0].raw, _mm512_broadcast_i32x4(four_by_four));
  _mm512_storeu_si512(out, _mm512_permutexvar_epi32(order, quads));
#else
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  const auto eights = [&](int p) HWY_ATTR {
    const __m256i quads =
        _mm256_shuffle_epi8(words.part[p].raw, _mm256_broadcastsi128_si256(four_by_four));
    return _mm256_permutevar8x32_epi32(quads, order);
  };
  const __m256i low = eights(0), high = eights(1);
  const __m256i even = _mm256_unpacklo_epi64(low, high), odd = _mm256_unpackhi_epi64(low, high);
  auto* const to = reinterpret_cast<__m256i*>(out);
  _mm256_storeu_si256(to, _mm256_permute2x128_si256(even, odd, 0x20));
  _mm256_storeu_si256(to + 1, _mm256_permute2x128_si256(even, odd, 0x31));
#endif
#endif
}

}  // namespace ng::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
