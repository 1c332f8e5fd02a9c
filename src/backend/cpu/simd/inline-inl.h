// NG_VECTOR_INLINE: inlined wherever there are vectors. Sixteen lanes one by one are much code:
// there every operation on them is a function, and kernels, which are calls, take GCC a fraction of
// the time. Include like lanes-inl.h.

// Per-target include guard
#if defined(NG_BACKEND_CPU_SIMD_INLINE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NG_BACKEND_CPU_SIMD_INLINE_INL_H_
#undef NG_BACKEND_CPU_SIMD_INLINE_INL_H_
#else
#define NG_BACKEND_CPU_SIMD_INLINE_INL_H_
#endif

#include <hwy/highway.h>

#undef NG_VECTOR_INLINE
#if HWY_TARGET == HWY_SCALAR
#define NG_VECTOR_INLINE inline HWY_NOINLINE
#else
#define NG_VECTOR_INLINE HWY_INLINE
#endif

#endif  // per-target include guard
