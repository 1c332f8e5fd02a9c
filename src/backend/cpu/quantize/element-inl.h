// Rounding sixteen scaled values to elements. Everything is arithmetic on powers of two, so each
// line is exact except the one that rounds; the bits equal encode + decode of format/codec.h.
//
// Include after foreach_target.h and inside no namespace.

// Per-target include guard
#if defined(NG_BACKEND_CPU_QUANTIZE_ELEMENT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NG_BACKEND_CPU_QUANTIZE_ELEMENT_INL_H_
#undef NG_BACKEND_CPU_QUANTIZE_ELEMENT_INL_H_
#else
#define NG_BACKEND_CPU_QUANTIZE_ELEMENT_INL_H_
#endif

#include <algorithm>
#include <type_traits>

#include "backend/cpu/quantize/kernels.h"
#include "backend/cpu/simd/bf16-inl.h"
#include "backend/cpu/simd/inline-inl.h"
#include "backend/cpu/simd/lanes-inl.h"
#include "math/round.h"

HWY_BEFORE_NAMESPACE();
namespace ng::cpu::HWY_NAMESPACE {

using Kind = ElementGrid::Kind;

// ---------------------------------------------------------------- operations lanes-inl.h lacks

// Toward zero, for values within int32: Highway's own conversion also repairs what is outside.
HWY_INLINE I16 Truncate(F16 a) {
  return ForParts<I16>([&](size_t p) HWY_ATTR {
#if HWY_TARGET == HWY_AVX3
    return hn::Vec<I16::Tag>{_mm512_cvttps_epi32(a.part[p].raw)};
#elif HWY_TARGET == HWY_AVX2
    return hn::Vec<I16::Tag>{_mm256_cvttps_epi32(a.part[p].raw)};
#else
    return hn::ConvertTo(I16::Tag(), a.part[p]);
#endif
  });
}
HWY_INLINE F16 Floor(F16 a) {
  return ForParts<F16>([&](size_t p) HWY_ATTR { return hn::Floor(a.part[p]); });
}
// Where numbers differ; lanes-inl.h's Ne looks for NaN too, by one operation more.
HWY_INLINE Mask16<float> Differ(F16 a, F16 b) {
  return ForParts<Mask16<float>>([&](size_t p) HWY_ATTR { return hn::Ne(a.part[p], b.part[p]); });
}
// Stores the low bits of every lane.
template <class Narrow>
HWY_INLINE void StoreLow(U16 v, Narrow* to, int64_t count) {
  alignas(32) Narrow tail[kLanes];
  Narrow* target = count >= kLanes ? to : tail;
  for (int p = 0; p < U16::kParts; ++p) {
    const hn::Rebind<Narrow, U16::Tag> narrow;
#if HWY_TARGET == HWY_SCALAR
    target[p] = static_cast<Narrow>(hn::GetLane(v.part[p]));
    (void)narrow;
#else
    hn::StoreU(hn::TruncateTo(narrow, v.part[p]), narrow, target + p * U16::kWidth);
#endif
  }
  if (count < kLanes) std::copy(tail, tail + count, to);
}

// ---------------------------------------------------------------- one vector of elements

// Constants of a grid and a tile, spread over the lanes. Magnitudes are compared as integers, which
// order them alike: CPUs have more units for those than for adding and comparing FP32.
struct Rules {
  F16 prescale;
  I16 max, clip, lowest_binade;
  F16 magic;       // p · magic + x rounds x to the spacing of the binade p
  F16 spacing;     // 2^-mantissa_bits
  U16 to_integer;  // to_integer - bits(p) = 2^16 / spacing of binade p
  F16 per_unit;    // int8: 1 / value of the integer 1
  bool divides;
};

HWY_INLINE I16 SetBits(float value) { return Set16(static_cast<int32_t>(float_bits(value))); }

HWY_INLINE Rules RulesOf(const ElementGrid& grid, const EncodeTile& tile) {
  const int m = grid.mantissa_bits;
  return {.prescale = Set16(tile.prescale),
          .max = SetBits(grid.max),
          .clip = SetBits(grid.clip),
          .lowest_binade = SetBits(grid.lowest_binade),
          .magic = Set16(1.5f * pow2(23 - m)),
          .spacing = Set16(pow2(-m)),
          .to_integer = Set16(static_cast<uint32_t>(16 + m + 254) << 23),
          .per_unit = Set16(1.0f / tile.unit),
          .divides = tile.divides};
}

// The binade of a magnitude, as the power of two it begins with.
HWY_INLINE F16 Binade(const Rules& k, F16 magnitude) {
  const I16 exponent = And(Bits<int32_t>(magnitude), SetBits(float_of_bits(kFloatInf)));
  return Bits<float>(Max(exponent, k.lowest_binade));
}

// Nearest even: adding 1.5 · 2^23 spacings leaves no bits below the spacing. [formats.md §2.1]
HWY_INLINE F16 Nearest(const Rules& k, F16 magnitude) {
  const F16 magic = Mul(Binade(k, magnitude), k.magic);
  return Sub(Add(magnitude, magic), magic);
}

// floor(t·2^r) = n·2^r + F, so adding R carries into n iff F + R >= 2^r. R of r = 8 bits is one of
// 16 with eight zeros below, for F·2^8 + F' + R·2^8 >= 2^16 has the same answer. [formats.md §2.3]
HWY_INLINE F16 Stochastic(const Rules& k, F16 magnitude, U16 draw) {
  const F16 binade = Binade(k, magnitude);
  const F16 per_spacing = Bits<float>(Sub(k.to_integer, Bits<uint32_t>(binade)));
  const U16 scaled = Bits<uint32_t>(Truncate(Mul(magnitude, per_spacing)));
  const U16 n = ShiftRight<16>(Add(scaled, draw));
  return Mul(ToFloat(Bits<int32_t>(n)), Mul(binade, k.spacing));
}

// BF16 is FP32 without its lower half, subnormals included; what carries past the largest stays.
template <bool kStochastic>
HWY_INLINE F16 RoundBf16(F16 magnitude, U16 draw) {
  const U16 bits = Bits<uint32_t>(magnitude);
  const U16 odd = And(ShiftRight<16>(bits), Set16(1u));
  const U16 up = kStochastic ? draw : Add(Set16(0x7FFFu), odd);
  return Bits<float>(And(Add(bits, up), Set16(0xFFFF0000u)));
}

// How far the values of a tile reach, for the form int8 (units-inl.h).
enum class Reach {
  far,    // where values in units would not be exact: elements are made as in any other form
  clips,  // some values may exceed the largest element
  fits    // none does
};

// What a kernel is compiled for.
struct Variant {
  Kind kind = Kind::small;
  bool stochastic = false;
  bool signed_zero = true;  // -0 is kept; else zeros are +0
  ElementForm form = ElementForm::bf16;
  Reach reach = Reach::far;

  [[nodiscard]] constexpr bool in_units() const { return reach != Reach::far; }
  [[nodiscard]] constexpr bool fits() const { return reach == Reach::fits; }
  [[nodiscard]] constexpr bool in_third_byte() const { return in_units() && stochastic; }
};

template <Variant v>
using VariantConstant = std::integral_constant<Variant, v>;

// floor(y + R·2^-r) within ± the largest. [formats.md §6]
HWY_INLINE I16 FloorInteger(F16 y, F16 magnitude, U16 draw) {
  const F16 signed_y =
      Bits<float>(Or(Bits<uint32_t>(magnitude), And(Bits<uint32_t>(y), Set16(0x80000000u))));
  const F16 scaled = Floor(Mul(signed_y, Set16(0x1p16f)));
  return ShiftRight<16>(Add(Truncate(scaled), Bits<int32_t>(draw)));
}

// A value as it is rounded.
template <Variant v>
HWY_INLINE F16 Scaled(const Rules& k, F16 value, F16 multiplier) {
  const F16 x = Mul(value, k.prescale);
  return !v.signed_zero && k.divides ? Div(x, multiplier) : Mul(x, multiplier);
}

template <Variant v>
HWY_INLINE F16 RoundElement(const Rules& k, F16 y, U16 draw) {
  const F16 magnitude = Bits<float>(Min(Bits<int32_t>(Abs(y)), k.clip));
  if constexpr (v.kind == Kind::integer && v.stochastic)
    return ToFloat(FloorInteger(y, magnitude, draw));
  F16 rounded;
  if constexpr (v.kind == Kind::bf16)
    rounded = Min(RoundBf16<v.stochastic>(magnitude, draw), Bits<float>(k.clip));
  else if constexpr (v.kind == Kind::fp32)
    rounded = magnitude;
  else if constexpr (v.stochastic)
    rounded = Stochastic(k, magnitude, draw);
  else
    rounded = Nearest(k, magnitude);
  U16 sign = And(Bits<uint32_t>(y), Set16(0x80000000u));
  if constexpr (!v.signed_zero && v.form != ElementForm::int8) {
    const M16 is_zero = Eq(rounded, Zero16());
    sign = Bits<uint32_t>(Select(is_zero, Zero16(), Bits<float>(sign)));
  }
  return Bits<float>(Or(Bits<uint32_t>(rounded), sign));
}

// ---------------------------------------------------------------- counting

// counts + 1 in the lanes of `mask`: cheaper than counting the bits of a mask for every vector.
HWY_INLINE U16 CountWhere(U16 counts, Mask16<int32_t> mask) {
  return ForParts<U16>([&](size_t p) HWY_ATTR {
    const U16::Tag d;
#if HWY_TARGET == HWY_AVX3
    const auto one = hn::Set(d, 1u);
    return hn::Vec<U16::Tag>{
        _mm512_mask_add_epi32(counts.part[p].raw, mask.part[p].raw, counts.part[p].raw, one.raw)};
#else
    const auto minus_one = hn::BitCast(d, hn::VecFromMask(I16::Tag(), mask.part[p]));
    return hn::Sub(counts.part[p], minus_one);
#endif
  });
}

HWY_INLINE uint64_t Total(U16 counts) {
  alignas(64) uint32_t lane[kLanes];
  Store16(counts, lane);
  uint64_t total = 0;
  for (const uint32_t l : lane) total += l;
  return total;
}

HWY_INLINE Mask16<int32_t> IsZero(F16 x) {
  return Eq(And(Bits<int32_t>(x), Set16(0x7FFFFFFF)), Zero16<int32_t>());
}

// EncodeCounts, one per lane.
struct LaneCounts {
  U16 saturated, flushed;
};

HWY_INLINE LaneCounts NoCounts() { return {Zero16<uint32_t>(), Zero16<uint32_t>()}; }

HWY_INLINE EncodeCounts TotalOf(const LaneCounts& counts) {
  return {.saturated = Total(counts.saturated), .flushed = Total(counts.flushed)};
}

// How many of `count` values, whole vectors, are zero.
template <class Value>
HWY_INLINE uint64_t CountZeros(const Value* x, int64_t count) {
  U16 zeros = Zero16<uint32_t>();
  for (int64_t i = 0; i < count; i += kLanes) zeros = CountWhere(zeros, IsZero(Load16(x + i)));
  return Total(zeros);
}

// `value` times its scale is y, which was rounded to `element`.
HWY_INLINE void CountElement(const Rules& k, F16 value, F16 y, F16 element, LaneCounts& counts) {
  counts.saturated = CountWhere(counts.saturated, Gt(Bits<int32_t>(Abs(y)), k.max));
  counts.flushed = CountWhere(counts.flushed, AndNot(IsZero(value), IsZero(element)));
}

}  // namespace ng::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
