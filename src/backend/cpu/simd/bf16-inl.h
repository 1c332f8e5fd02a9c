// BF16: rounding to it, and BF16 in memory, from which sixteen lanes of FP32 are read exactly and
// to which they are written rounded. Include like lanes-inl.h.

// Per-target include guard
#if defined(NG_BACKEND_CPU_SIMD_BF16_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NG_BACKEND_CPU_SIMD_BF16_INL_H_
#undef NG_BACKEND_CPU_SIMD_BF16_INL_H_
#else
#define NG_BACKEND_CPU_SIMD_BF16_INL_H_
#endif

#include "backend/cpu/simd/lanes-inl.h"
#include "base/isa.h"
#include "math/bf16.h"

HWY_BEFORE_NAMESPACE();
namespace ng::cpu::HWY_NAMESPACE {

/// What rounds bits to nearest even when their lower half is cut off after.
NG_VECTOR_INLINE U16 HalfUp(const U16& bits) {
  return ForParts<U16>([&](size_t p) HWY_ATTR {
    const U16::Tag d;
    const auto odd = hn::TestBit(bits.part[p], hn::Set(d, 0x10000u));
    return hn::IfThenElse(odd, hn::Set(d, 0x8000u), hn::Set(d, 0x7FFFu));
  });
}

// The BF16 pattern nearest to x in the upper half of each lane; the lower half is anything.
NG_VECTOR_INLINE U16 NearestBf16(const F16& x) {
  const U16 bits = Bits<uint32_t>(x);
  const U16 nearest = Add(bits, HalfUp(bits));
  const U16 quiet = Or(bits, Set16(0x00400000u));
  return Bits<uint32_t>(Select(Eq(x, x), Bits<float>(nearest), Bits<float>(quiet)));
}

/// FP32 -> the BF16 value nearest to it (ties to even), kept as FP32. NaN stays NaN and keeps sign
/// and upper payload, made quiet.
NG_VECTOR_INLINE F16 RoundToBf16(const F16& x) {
  return Bits<float>(And(NearestBf16(x), Set16(0xFFFF0000u)));
}

/// One register of values as FP32, as many as F16's parts have.
HWY_INLINE hn::Vec<F16::Tag> LoadPart(const float* from) { return hn::LoadU(F16::Tag(), from); }
HWY_INLINE hn::Vec<F16::Tag> LoadPart(const Bf16* from) {
  const U16::Tag du;
  const hn::Rebind<uint16_t, U16::Tag> half;
  return hn::BitCast(F16::Tag(),
                     hn::ShiftLeft<16>(hn::PromoteTo(du, hn::LoadU(half, &from->bits))));
}

/// Sixteen BF16 values as FP32.
NG_VECTOR_INLINE F16 Load16(const Bf16* from) {
  return Bits<float>(ShiftLeft<16>(LoadHalves16<uint32_t>(&from->bits)));
}

/// The first `count` (0 ... 16) values; the other lanes are zero and their memory is not touched.
NG_VECTOR_INLINE F16 Load16(const Bf16* from, int64_t count) {
  if (count >= kLanes) return Load16(from);
  alignas(32) Bf16 padded[kLanes] = {};  // not every instruction set masks loads of two bytes
  if (count > 0) std::copy_n(from, count, padded);
  return Load16(padded);
}

#if HWY_TARGET == HWY_AVX3
/// Sixteen values as BF16 by the CPU's own conversion, where it has one and no value is subnormal
/// or zero; false: nothing was stored.
NG_VECTOR_INLINE bool StoreConverted(__m512 x, Bf16* to) {
  if (!converts_to_bf16()) return false;
  const __m512i exponent = _mm512_set1_epi32(0x7F800000);
  if (_mm512_testn_epi32_mask(_mm512_castps_si512(x), exponent) != 0) return false;
  __m256i narrow;
  __asm__("vcvtneps2bf16 %1, %0" : "=v"(narrow) : "v"(x));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), narrow);
  return true;
}
#endif

/// Sixteen values as BF16, rounded as RoundToBf16 does.
NG_VECTOR_INLINE void Store16(const F16& v, Bf16* to) {
#if HWY_TARGET == HWY_AVX3
  if (StoreConverted(v.part[0].raw, to)) return;
#endif
  const U16 nearest = NearestBf16(v);
#if HWY_TARGET == HWY_AVX3
  const hn::ScalableTag<uint16_t> d;
  const auto halves = hn::BitCast(d, nearest.part[0]);
  const hn::Half<decltype(d)> half;
  hn::StoreU(hn::LowerHalf(half, hn::ConcatOdd(d, halves, halves)), half, &to->bits);
#elif HWY_TARGET == HWY_AVX2
  const hn::ScalableTag<uint16_t> d;
  const auto low = hn::BitCast(d, nearest.part[0]), high = hn::BitCast(d, nearest.part[1]);
  hn::StoreU(hn::ConcatOdd(d, high, low), d, &to->bits);
#else
  for (int p = 0; p < kLanes; ++p)
    to[p].bits = static_cast<uint16_t>(hn::GetLane(nearest.part[p]) >> 16);
#endif
}

/// Stores the first `count` (0 ... 16) lanes; the memory of the others is not touched.
NG_VECTOR_INLINE void Store16(const F16& v, Bf16* to, int64_t count) {
  if (count >= kLanes) return Store16(v, to);
  alignas(32) Bf16 padded[kLanes];
  Store16(v, padded);
  if (count > 0) std::copy_n(padded, count, to);
}

/// Sixteen BF16 values as doubles.
NG_VECTOR_INLINE D16 LoadAsDouble16(const Bf16* from) {
  return ForParts<D16>([=](size_t p) HWY_ATTR {
    const hn::Rebind<uint16_t, D16::Tag> quarter;
    const hn::Rebind<uint32_t, D16::Tag> half;
    const hn::Rebind<float, D16::Tag> half_float;
    const auto bits = hn::PromoteTo(half, hn::LoadU(quarter, &from->bits + p * D16::kWidth));
    return hn::PromoteTo(D16::Tag(), hn::BitCast(half_float, hn::ShiftLeft<16>(bits)));
  });
}

}  // namespace ng::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
