// What the kernels share: reading and writing by storage, and loops over a row's columns. Include
// like lanes-inl.h.

// Per-target include guard
#if defined(NG_BACKEND_CPU_SIMD_KERNEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NG_BACKEND_CPU_SIMD_KERNEL_INL_H_
#undef NG_BACKEND_CPU_SIMD_KERNEL_INL_H_
#else
#define NG_BACKEND_CPU_SIMD_KERNEL_INL_H_
#endif

#include <type_traits>

#include "backend/cpu/simd/bf16-inl.h"
#include "tensor/view.h"

HWY_BEFORE_NAMESPACE();
namespace ng::cpu::HWY_NAMESPACE {

/// How an operation whose output is stored as `Stored` reads and writes, as a type, so that kernels
/// are compiled once for each: in BF16 everything is read rounded, also what is stored as FP32.
template <class Stored>
struct In {
  /// Up to `left` values as the operation sees them; the memory of others is not touched.
  static HWY_INLINE F16 Read(const Bf16* from, int64_t left) { return Load16(from, left); }
  static HWY_INLINE F16 Read(const float* from, int64_t left) {
    const F16 v = Load16(from, left);
    if constexpr (std::is_same_v<Stored, Bf16>) return RoundToBf16(v);
    return v;
  }
  /// Up to `left` results, rounded once.
  static HWY_INLINE void Write(F16 v, Stored* to, int64_t left) { Store16(v, to, left); }

  /// The rows of a view that is stored so.
  template <class Byte>
  static auto RowsOf(const BasicView<Byte>& view) {
    return view.template as<Stored>();
  }
};

/// kernel(In<what the view is stored as>()), for FP32 and BF16.
template <class Kernel>
HWY_INLINE void WithStored(const ConstView& view, const Kernel& kernel) {
  if (view.is(bf16_format())) return kernel(In<Bf16>());
  kernel(In<float>());
}

/// 16 values as doubles, zero from lane `left` on.
template <class Stored>
HWY_INLINE D16 Doubles(const Stored* x, int64_t left) {
  if (left >= kLanes) return LoadAsDouble16(x);
  alignas(64) Stored padded[kLanes] = {};
  std::copy_n(x, left, padded);
  return LoadAsDouble16(padded);
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
