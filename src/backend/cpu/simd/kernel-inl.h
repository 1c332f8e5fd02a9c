// What the kernels share: reading and writing by Compute, and loops over a row's columns. Include
// like lanes-inl.h.

// Per-target include guard
#if defined(NG_BACKEND_CPU_SIMD_KERNEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NG_BACKEND_CPU_SIMD_KERNEL_INL_H_
#undef NG_BACKEND_CPU_SIMD_KERNEL_INL_H_
#else
#define NG_BACKEND_CPU_SIMD_KERNEL_INL_H_
#endif

#include <type_traits>

#include "backend/backend.h"
#include "backend/cpu/simd/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ng::cpu::HWY_NAMESPACE {

/// RoundToBf16, sooner where every lane is BF16 already, as operations in BF16 leave their results.
/// (A NaN that is BF16 stays as it is.)
HWY_INLINE F16 ReadAsBf16(F16 x) {
  const U16 bits = Bits<uint32_t>(x);
  auto low = bits.part[0];
  for (int p = 1; p < U16::kParts; ++p) low = hn::Or(low, bits.part[p]);
  const U16::Tag d;
  const bool rounded = hn::AllTrue(d, hn::Eq(hn::And(low, hn::Set(d, 0xFFFFu)), hn::Zero(d)));
  // Not a ternary: GCC 12 would merge the sixteen lanes through memory.
  if (!rounded) x = RoundToBf16(x);
  return x;
}

/// An operation's Compute as a type, so that kernels are compiled once for each.
template <Compute kCompute>
struct In {
  /// Up to `left` values as the operation sees them.
  static HWY_INLINE F16 Read(const float* from, int64_t left) {
    const F16 v = Load16(from, left);
    if constexpr (kCompute == Compute::bf16) return ReadAsBf16(v);
    return v;
  }
  /// Up to `left` results, rounded once.
  static HWY_INLINE void Write(F16 v, float* to, int64_t left) {
    if constexpr (kCompute == Compute::bf16) v = RoundToBf16(v);
    Store16(v, to, left);
  }
};

/// kernel(In<compute>())
template <class Kernel>
HWY_INLINE void WithCompute(Compute compute, const Kernel& kernel) {
  if (compute == Compute::bf16) return kernel(In<Compute::bf16>());
  kernel(In<Compute::fp32>());
}

/// body(i, left) for i = 0, 16, ... below n; left is AllLanes except in the last, partial step.
template <class Body>
HWY_INLINE void ForLanes(int64_t n, const Body& body) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) body(i, AllLanes());
  if (i < n) body(i, n - i);
}

}  // namespace ng::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
