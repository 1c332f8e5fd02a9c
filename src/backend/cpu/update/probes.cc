// What the search for a precision-aware step asks of a stretch.
#include "backend/cpu/update/chunks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/update/probes.cc"
#include <hwy/foreach_target.h>  // once per instruction set

#include "backend/cpu/simd/kernel-inl.h"
#include "backend/cpu/update/adam-inl.h"
#include "backend/cpu/update/chunk-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ng::cpu::HWY_NAMESPACE {

void FindDirection(const ChunkJob& job, int64_t first, int64_t count, ChunkBuffers& b, float* w,
                   float* u) {
  const StepRules k = RulesOf(job.numbers, job.grad_scale);
  for (int64_t at = first; at < first + count; at += kChunk, w += kChunk, u += kChunk) {
    const float* gs = ReadChunk(job.grad, at, b.g);
    const float* ms = ReadChunk(job.moment1, at, b.m);
    const float* vs = ReadChunk(job.moment2, at, b.v);
    ReadChunk(job.value, at, w);
    for (int64_t i = 0; i < kChunk; i += kLanes) {
      const AdamMoments a = MoveMoments(k, Load16(ms + i), Load16(vs + i), Load16(gs + i));
      Store16(Direction(k, Load16(w + i), a), u + i);
    }
  }
}

template <Stored16 kKind>
HWY_INLINE double MovedSquaresOf(const ChunkTensor& value, const float* w, const float* u,
                                 float alpha, int64_t count) {
  const Rules rounding = RoundingOf(value);
  const F16 rate = Set16(alpha), encode = Set16(value.encode);
  const F16 decode = Set16(1.0f / value.encode);
  D16 sum = Zero16<double>();
  ForLanes(count, [&](int64_t i, auto left) HWY_ATTR {
    const F16 x = Add(Load16(w + i, left), Mul(rate, Load16(u + i, left)));
    const F16 y = kKind == Stored16::bf16 ? x : Mul(x, encode);
    const F16 element = RoundTo<kKind, false>(rounding, y, Zero16<uint32_t>());
    alignas(64) float moved[kLanes];
    Store16(kKind == Stored16::bf16 ? element : Mul(element, decode), moved);
    const D16 change = Sub(LoadAsDouble16(moved), Doubles(w + i, left));
    sum = Add(sum, Mul(change, change));
  });
  return FoldLanes(sum);
}

double MovedSquares(const ChunkTensor& value, const float* w, const float* u, float alpha,
                    int64_t count) {
  return value.kind == Stored16::bf16 ? MovedSquaresOf<Stored16::bf16>(value, w, u, alpha, count)
                                      : MovedSquaresOf<Stored16::e4m3>(value, w, u, alpha, count);
}

}  // namespace ng::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ng::cpu {
HWY_EXPORT(FindDirection);
HWY_EXPORT(MovedSquares);

void find_direction(const ChunkJob& job, int64_t first, int64_t count, ChunkBuffers& buffers,
                    float* w, float* u) {
  HWY_DYNAMIC_DISPATCH(FindDirection)(job, first, count, buffers, w, u);
}
double moved_squares(const ChunkTensor& value, const float* w, const float* u, float alpha,
                     int64_t count) {
  return HWY_DYNAMIC_DISPATCH(MovedSquares)(value, w, u, alpha, count);
}

}  // namespace ng::cpu
#endif
