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

// weight.Begin(i, new moments) for every vector of a chunk, and weight.End(i) four vectors later:
// what waits for a division would keep the CPU from seeing what does not.
template <class Weight>
HWY_INLINE void MoveChunk(const StepRules& rules, const ChunkMoments& places,
                          const Weight& weight) {
  const StepRules k = rules;  // copies: stores cannot change them
  const ChunkMoments s = places;
  constexpr int64_t kLag = 4 * kLanes;
  for (int64_t i = 0; i < kChunk + kLag; i += kLanes) {
    if (i < kChunk) {
      const AdamMoments a = MoveMoments(k, Load16(s.m + i), Load16(s.v + i), Load16(s.g + i));
      Store16(a.m, s.new_m + i);
      Store16(a.v, s.new_v + i);
      weight.Begin(i, a);
    }
    if (i >= kLag) weight.End(i - kLag);
  }
}

// ---------------------------------------------------------------- weights without a wider copy

template <Stored16 kKind, UpdateRule kRule, class Weight>
struct WeightByRule {
  static constexpr bool kStochastic = kRule == UpdateRule::stochastic;
  static constexpr bool kDraws = kStochastic || kRule == UpdateRule::residual;

  WeightByRule(const ChunkJob& job, const StepRules& rules, int64_t at, const Weight* weight,
               ChunkBuffers& buffers)
      : k(rules),
        rounding(RoundingOf(job.value)),
        before(LanesOf(job.before)),
        after(LanesOf(job.after)),
        rate(Set16(job.step)),
        encode(Set16(job.value.encode)),
        decode(Set16(1.0f / job.value.encode)),
        w(weight),
        steps(buffers.x),
        draws(buffers.draws),
        codes(job.value.data + at * (kKind == Stored16::bf16 ? 2 : 1)),
        carry(reinterpret_cast<Bf16*>(job.carry) + at),
        residual(reinterpret_cast<int8_t*>(job.carry) + at) {}

  HWY_INLINE void Begin(int64_t i, const AdamMoments& a) const {
    Store16(Direction(k, Load16(w + i), a), steps + i);
  }
  HWY_INLINE void End(int64_t i) const {
    const F16 old = Load16(w + i);
    F16 step = Mul(rate, Load16(steps + i)), from = old;
    if constexpr (kRule == UpdateRule::kahan) step = Sub(step, Load16(carry + i));
    if constexpr (kRule == UpdateRule::residual)
      from = WithResidual<kKind != Stored16::bf16>(before, old, LoadBytes16(residual + i));
    const F16 x = Add(from, step);
    const U16 draw = kDraws ? LoadHalves16<uint32_t>(draws + i) : Zero16<uint32_t>();
    const F16 y = kKind == Stored16::bf16 ? x : Mul(x, encode);
    constexpr bool kCarries = kRule == UpdateRule::kahan || kRule == UpdateRule::residual;
    if constexpr (kKind == Stored16::e4m3 && !kCarries)
      return StoreAsE4m3<kStochastic>(rounding, y, draw, codes + i);
    F16 element = RoundTo<kKind, kStochastic>(rounding, y, draw);
    if constexpr (kRule == UpdateRule::kahan)
      Store16(Sub(Sub(Mul(element, decode), old), step), carry + i);
    if constexpr (kRule == UpdateRule::residual) {
      const ResidualPair pair =
          CarryOf<kKind != Stored16::bf16>(after, x, element, Bits<int32_t>(draw));
      StoreLow(Bits<uint32_t>(pair.c), reinterpret_cast<uint8_t*>(residual + i), kLanes);
      element = pair.element;
    }
    PutElement<kKind>(element, codes, i);
  }

  StepRules k;
  Rules rounding;
  ResidualLanes before, after;
  F16 rate, encode, decode;
  const Weight* w;
  float* steps;
  const uint16_t* draws;
  std::byte* codes;
  Bf16* carry;
  int8_t* residual;
};

template <Stored16 kKind, UpdateRule kRule, class Weight>
HWY_NOINLINE void RuleChunk(const ChunkJob& job, const StepRules& k, int64_t at, const Weight* w,
                            const ChunkMoments& s, ChunkBuffers& b) {
  using ByRule = WeightByRule<kKind, kRule, Weight>;
  if (ByRule::kDraws) DrawChunk(job.value, at, b.draws);
  const ByRule weight(job, k, at, w, b);
  MoveChunk(k, s, weight);
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

// A master in FP16, and its value in E4M3 of what was stored.
HWY_INLINE void PutFp16AndE4m3(const ChunkJob& job, int64_t at, const float* x) {
  const Rules rounding = RoundingOf(job.value);
  const I16 limit = SetBits(job.master.grid.clip);
  const F16 encode = Set16(job.master.encode), decode = Set16(1.0f / job.master.encode);
  const F16 scale = Set16(job.value.encode);
  std::byte *const master = job.master.data + 2 * at, *const value = job.value.data + at;
  for (int64_t i = 0; i < kChunk; i += kLanes) {
    const F16 element = StoreFp16(Clipped(Mul(Load16(x + i), encode), limit), master + 2 * i);
    const F16 y = Mul(Mul(element, decode), scale);
    StoreAsE4m3<false>(rounding, y, Zero16<uint32_t>(), value + i);
  }
}

// The value of a master, as it was stored.
HWY_INLINE void PutWithMaster(const ChunkJob& job, int64_t at, const float* x, ChunkBuffers& b) {
  if (job.master.kind == Stored16::none) return;
  if (job.master.kind == Stored16::fp16 && job.value.kind == Stored16::e4m3 && job.value.block == 0)
    return PutFp16AndE4m3(job, at, x);
  PutChunk(job.master, at, x, b.draws);
  ChunkTensor master = job.master;
  master.decode = 1.0f / master.encode;
  PutChunk(job.value, at, ReadChunk(master, at, b.x), b.draws);
}

struct WiderWeight {
  HWY_INLINE void Begin(int64_t i, const AdamMoments& a) const {
    Store16(NewWeight(k, Load16(w + i), a), x + i);
  }
  HWY_INLINE void End(int64_t) const {}

  StepRules k;
  const float* w;
  float* x;
};

HWY_NOINLINE void DirectChunk(const ChunkJob& job, const StepRules& k, int64_t at,
                              const ChunkMoments& s, ChunkBuffers& b) {
  const ChunkTensor& weight = job.master.kind != Stored16::none ? job.master : job.value;
  float* const x = PlaceOf(weight, at, b.x);
  MoveChunk(k, s, WiderWeight{k, ReadChunk(weight, at, b.w), x});
  PutWithMaster(job, at, x, b);
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
