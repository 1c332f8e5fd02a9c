// Vectors for the rows of a panel, which lie side by side.
//
// Include after foreach_target.h and inside no namespace.

// Per-target include guard
#if defined(NG_BACKEND_CPU_GEMM_WIDTH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NG_BACKEND_CPU_GEMM_WIDTH_INL_H_
#undef NG_BACKEND_CPU_GEMM_WIDTH_INL_H_
#else
#define NG_BACKEND_CPU_GEMM_WIDTH_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace ng::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// body(d): the widest vector of four-byte lanes T that divides the width of a panel, a multiple of
// eight, and sixteen.
template <class T = float, class Body>
HWY_INLINE void WithLanes(int width, const Body& body) {
  if (width % 16 == 0) return body(hn::CappedTag<T, 16>());
  body(hn::CappedTag<T, 8>());
}

}  // namespace ng::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
