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

void FindDirection(const ChunkJob& job, int64_t first, int64_t count, int64_t taken,
                   ChunkBuffers& b, float* w, float* u) {
  const StepRules k = RulesOf(job.numbers, job.grad_scale);
  for (int64_t at = first; at < first + count; at += kChunk, w += taken, u += taken) {
    const float* gs = ReadChunk(job.grad, at, b.g);
    const float* ms = ReadChunk(job.moment1, at, b.m);
    const float* vs = ReadChunk(job.moment2, at, b.v);
    const float* ws = ReadChunk(job.value, at, b.w);
    for (int64_t i = 0; i < taken; i += kLanes) {
      const AdamMoments a = MoveMoments(k, Load16(ms + i), Load16(vs + i), Load16(gs + i));
      const F16 weight = Load16(ws + i);
      Store16(weight, w + i);
      Store16(Direction(k, weight, a), u + i);
    }
  }
}

// kWays steps in one loop share what is read.
template <Stored16 kKind, size_t kWays>
HWY_INLINE void AddWays(const ChunkTensor& value, const float* w, const float* u, int64_t count,
                        const float* alphas, double* squares) {
  const Rules rounding = RoundingOf(value);
  const F16 encode = Set16(value.encode), decode = Set16(1.0f / value.encode);
  D16 sum[kWays];
  for (size_t i = 0; i < kWays; ++i) sum[i] = Zero16<double>();
  ForLanes(count, [&](int64_t at, auto left) HWY_ATTR {
    const F16 weight = Load16(w + at, left), direction = Load16(u + at, left);
    const D16 before = ToDouble(weight);
    for (size_t i = 0; i < kWays; ++i) {
      const F16 x = Add(weight, Mul(Set16(alphas[i]), direction));
      const F16 y = kKind == Stored16::bf16 ? x : Mul(x, encode);
      const F16 element = RoundTo<kKind, false>(rounding, y, Zero16<uint32_t>());
      const F16 moved = kKind == Stored16::bf16 ? element : Mul(element, decode);
      const D16 change = Sub(ToDouble(moved), before);
      sum[i] = Add(sum[i], Mul(change, change));
    }
  });
  for (size_t i = 0; i < kWays; ++i) squares[i] += FoldLanes(sum[i]);
}

template <Stored16 kKind>
HWY_INLINE void AddMovedSquaresOf(const ChunkTensor& value, const float* w, const float* u,
                                  int64_t count, std::span<const float> alphas, double* squares) {
  size_t i = 0;
  for (; i + 3 <= alphas.size(); i += 3)
    AddWays<kKind, 3>(value, w, u, count, &alphas[i], squares + i);
  for (; i < alphas.size(); ++i) AddWays<kKind, 1>(value, w, u, count, &alphas[i], squares + i);
}

void AddMovedSquares(const ChunkTensor& value, const float* w, const float* u, int64_t count,
                     std::span<const float> alphas, double* squares) {
  if (value.kind == Stored16::bf16)
    AddMovedSquaresOf<Stored16::bf16>(value, w, u, count, alphas, squares);
  else
    AddMovedSquaresOf<Stored16::e4m3>(value, w, u, count, alphas, squares);
}

}  // namespace ng::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ng::cpu {
HWY_EXPORT(FindDirection);
HWY_EXPORT(AddMovedSquares);

void find_direction(const ChunkJob& job, int64_t first, int64_t count, int64_t taken,
                    ChunkBuffers& buffers, float* w, float* u) {
  HWY_DYNAMIC_DISPATCH(FindDirection)(job, first, count, taken, buffers, w, u);
}
void add_moved_squares(const ChunkTensor& value, const float* w, const float* u, int64_t count,
                       std::span<const float> alphas, double* squares) {
  HWY_DYNAMIC_DISPATCH(AddMovedSquares)(value, w, u, count, alphas, squares);
}

}  // namespace ng::cpu
#endif
