// Rearrangements and butterflies that several kernels share.
//
// Include after foreach_target.h and inside no namespace.

// Per-target include guard
#if defined(NG_BACKEND_CPU_SIMD_SHUFFLE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NG_BACKEND_CPU_SIMD_SHUFFLE_INL_H_
#undef NG_BACKEND_CPU_SIMD_SHUFFLE_INL_H_
#else
#define NG_BACKEND_CPU_SIMD_SHUFFLE_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <type_traits>

#include "backend/cpu/simd/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ng::cpu::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR
// Transposes the 4 x 4 words of every 128 bits of four rows: put(c, column c).
template <class D, class Put>
HWY_INLINE void TransposeWordsOf(D d, hn::Vec<D> a, hn::Vec<D> b, hn::Vec<D> c, hn::Vec<D> e,
                                 const Put& put) {
  const hn::Repartition<uint64_t, D> d64;
  const auto ab_low = hn::BitCast(d64, hn::InterleaveLower(d, a, b));
  const auto ab_high = hn::BitCast(d64, hn::InterleaveUpper(d, a, b));
  const auto ce_low = hn::BitCast(d64, hn::InterleaveLower(d, c, e));
  const auto ce_high = hn::BitCast(d64, hn::InterleaveUpper(d, c, e));
  put(0, hn::BitCast(d, hn::InterleaveLower(d64, ab_low, ce_low)));
  put(1, hn::BitCast(d, hn::InterleaveUpper(d64, ab_low, ce_low)));
  put(2, hn::BitCast(d, hn::InterleaveLower(d64, ab_high, ce_high)));
  put(3, hn::BitCast(d, hn::InterleaveUpper(d64, ab_high, ce_high)));
}

// The same, column c at to + c · stride.
template <class D, class T>
HWY_INLINE void StoreTransposed(D d, hn::Vec<D> a, hn::Vec<D> b, hn::Vec<D> c, hn::Vec<D> e, T* to,
                                int64_t stride) {
  TransposeWordsOf(d, a, b, c, e, [&](int64_t column, hn::Vec<D> v) HWY_ATTR {
    hn::StoreU(v, d, to + column * stride);
  });
}
#endif

// Butterflies between kCount vectors, strides kStride, 2 · kStride, ... Recursion and unrolling
// keep the vectors in registers.
template <int kStride = 1, class V, int kCount>
HWY_INLINE void Butterflies(V (&v)[kCount]) {
  if constexpr (kStride < kCount) {
#pragma GCC unroll 16
    for (int i = 0; i < kCount; ++i)
      if ((i & kStride) == 0) {
        const V sum = Add(v[i], v[i + kStride]);
        v[i + kStride] = Sub(v[i], v[i + kStride]);
        v[i] = sum;
      }
    Butterflies<2 * kStride>(v);
  }
}

// The signs of a transform of 16 · kParts values as sign bits, and body(kParts as a constant,
// them).
template <class Body>
HWY_INLINE void WithHadamardSigns(int size, const uint32_t* signs, const Body& body) {
  alignas(64) uint32_t flips[128];
  for (int j = 0; j < size; ++j) flips[j] = (signs[j / 32] >> (j % 32)) << 31;
  switch (size) {
    case 16:
      return body(std::integral_constant<int, 1>(), flips);
    case 32:
      return body(std::integral_constant<int, 2>(), flips);
    case 64:
      return body(std::integral_constant<int, 4>(), flips);
    default:
      return body(std::integral_constant<int, 8>(), flips);
  }
}

}  // namespace ng::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
