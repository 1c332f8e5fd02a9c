#include "backend/cpu/update/chunks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/update/chunks.cc"
#include <hwy/foreach_target.h>  // once per instruction set

#include "backend/cpu/update/adam-inl.h"
#include "backend/cpu/update/chunk-inl.h"
#include "backend/cpu/update/residual-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ng::cpu::HWY_NAMESPACE {

// What AdamW reads and writes of one chunk, in FP32.
struct ChunkMoments {
  const float *m, *v, *g;
  float *new_m, *new_v;
};

HWY_INLINE float* PlaceOf(const ChunkTensor& t, int64_t at, float* buffer) {
  return t.kind == Stored16::fp32 ? reinterpret_cast<float*>(t.data) + at : buffer;
}

HWY_INLINE ChunkMoments ReadMoments(const ChunkJob& job, int64_t at, ChunkBuffers& b) {
  return {.m = ReadChunk(job.moment1, at, b.m),
          .v = ReadChunk(job.moment2, at, b.v),
          .g = ReadChunk(job.grad, at, b.g),
          .new_m = PlaceOf(job.moment1, at, b.m),
          .new_v = PlaceOf(job.moment2, at, b.v)};
}

// finish(i, w, new moments) for every vector of a chunk.
template <class Weight, class Finish>
HWY_INLINE void MoveChunk(const StepRules& k, const Weight* w, const ChunkMoments& s,
                          const Finish& finish) {
  for (int64_t i = 0; i < kChunk; i += kLanes) {
    const AdamMoments a = MoveMoments(k, Load16(s.m + i), Load16(s.v + i), Load16(s.g + i));
    Store16(a.m, s.new_m + i);
    Store16(a.v, s.new_v + i);
    finish(i, Load16(w + i), a);
  }
}

// ---------------------------------------------------------------- weights without a wider copy

template <Stored16 kKind, UpdateRule kRule, class Weight>
HWY_NOINLINE void RuleChunk(const ChunkJob& job, const StepRules& k, int64_t at, const Weight* w,
                            const ChunkMoments& s, ChunkBuffers& b) {
  constexpr bool kDraws = kRule == UpdateRule::stochastic || kRule == UpdateRule::residual;
  const Rules rounding = RoundingOf(job.value);
  const ResidualLanes before = LanesOf(job.before), after = LanesOf(job.after);
  const F16 rate = Set16(job.step), encode = Set16(job.value.encode);
  const F16 decode = Set16(1.0f / job.value.encode);
  if (kDraws) DrawChunk(job.value, at, b.draws);
  MoveChunk(
      k, w,
      s, [&](int64_t i, F16 weight, const AdamMoments& a) HWY_ATTR __attribute__((always_inline)) {
        auto* const c = reinterpret_cast<Bf16*>(job.carry) + at + i;
        auto* const q = reinterpret_cast<int8_t*>(job.carry) + at + i;
        F16 step = Mul(rate, Direction(k, weight, a)), from = weight;
        if constexpr (kRule == UpdateRule::kahan) step = Sub(step, Load16(c));
        if constexpr (kRule == UpdateRule::residual)
          from = WithResidual(before, weight, LoadBytes16(q));
        const F16 x = Add(from, step);
        const U16 draw = kDraws ? LoadHalves16<uint32_t>(b.draws + i) : Zero16<uint32_t>();
        constexpr bool kStochastic = kRule == UpdateRule::stochastic;
        const F16 y = kKind == Stored16::bf16 ? x : Mul(x, encode);
        F16 element = RoundTo<kKind, kStochastic>(rounding, y, draw);
        if constexpr (kRule == UpdateRule::kahan)
          Store16(Sub(Sub(Mul(element, decode), weight), step), c);
        if constexpr (kRule == UpdateRule::residual) {
          const ResidualPair pair = CarryOf(after, x, element, Bits<int32_t>(draw));
          StoreLow(Bits<uint32_t>(pair.c), reinterpret_cast<uint8_t*>(q), kLanes);
          element = pair.element;
        }
        PutElement<kKind>(element, job.value.data, at + i);
      });
}

template <Stored16 kKind, class Weight>
HWY_INLINE void ChunkByRule(const ChunkJob& job, const StepRules& k, int64_t at, const Weight* w,
                            const ChunkMoments& s, ChunkBuffers& b) {
  switch (job.rule) {
    case UpdateRule::stochastic:
      return RuleChunk<kKind, UpdateRule::stochastic>(job, k, at, w, s, b);
    case UpdateRule::kahan:
      return RuleChunk<kKind, UpdateRule::kahan>(job, k, at, w, s, b);
    case UpdateRule::residual:
      return RuleChunk<kKind, UpdateRule::residual>(job, k, at, w, s, b);
    default:
      return RuleChunk<kKind, UpdateRule::nearest>(job, k, at, w, s, b);
  }
}

// ---------------------------------------------------------------- weights in FP32 or with a master

// The value of a master, as it was stored.
HWY_INLINE void ValueOfMaster(const ChunkJob& job, int64_t at, const float* x, ChunkBuffers& b) {
  if (job.master.kind == Stored16::none) return;
  PutChunk(job.master, at, x, b.draws);
  ChunkTensor master = job.master;
  master.decode = 1.0f / master.encode;
  PutChunk(job.value, at, ReadChunk(master, at, b.x), b.draws);
}

HWY_NOINLINE void DirectChunk(const ChunkJob& job, const StepRules& k, int64_t at,
                              const ChunkMoments& s, ChunkBuffers& b) {
  const ChunkTensor& weight = job.master.kind != Stored16::none ? job.master : job.value;
  const float* w = ReadChunk(weight, at, b.w);
  float* const x = PlaceOf(weight, at, b.x);
  MoveChunk(
      k, w,
      s, [&](int64_t i, F16 old, const AdamMoments& a) HWY_ATTR __attribute__((always_inline)) {
        Store16(NewWeight(k, old, a), x + i);
      });
  ValueOfMaster(job, at, x, b);
}

void UpdateChunks(const ChunkJob& job, int64_t first, int64_t count, ChunkBuffers& b) {
  const StepRules k = RulesOf(job.numbers, job.grad_scale);
  const bool is_direct = job.master.kind != Stored16::none || job.value.kind == Stored16::fp32;
  for (int64_t at = first; at < first + count; at += kChunk) {
    const ChunkMoments s = ReadMoments(job, at, b);
    if (is_direct)
      DirectChunk(job, k, at, s, b);
    else if (job.value.kind == Stored16::bf16)
      ChunkByRule<Stored16::bf16>(job, k, at, reinterpret_cast<const Bf16*>(job.value.data) + at, s,
                                  b);
    else
      ChunkByRule<Stored16::e4m3>(job, k, at, ReadChunk(job.value, at, b.w), s, b);
    PutChunk(job.moment1, at, s.new_m, b.draws);
    PutChunk(job.moment2, at, s.new_v, b.draws);
  }
}

}  // namespace ng::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ng::cpu {
HWY_EXPORT(UpdateChunks);

bool is_common(const ChunkJob& job) {
  using Kind = ChunkTensor::Kind;
  const Kind value = job.value.kind, master = job.master.kind;
  for (const Kind kind : {value, master, job.moment1.kind, job.moment2.kind, job.grad.kind})
    if (kind == Kind::other) return false;
  if (job.moment1.kind == Kind::none || job.moment2.kind == Kind::none) return false;
  if (master != Kind::none) return value != Kind::fp32;
  return value == Kind::fp32 || value == Kind::bf16 ||
         (value == Kind::e4m3 && job.value.block == 0);
}

void update_chunks(const ChunkJob& job, int64_t first, int64_t count, ChunkBuffers& buffers) {
  HWY_DYNAMIC_DISPATCH(UpdateChunks)(job, first, count, buffers);
}

}  // namespace ng::cpu
#endif
