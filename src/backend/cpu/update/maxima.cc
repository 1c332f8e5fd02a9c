// The largest values of an update before it is stored. Of weights a bound says for most that they
// are not the largest, without division or root.
#include "backend/cpu/update/chunks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/update/maxima.cc"
#include <hwy/foreach_target.h>  // once per instruction set

#include "backend/cpu/update/adam-inl.h"
#include "backend/cpu/update/chunk-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ng::cpu::HWY_NAMESPACE {

HWY_INLINE I16 Magnitude(F16 x) { return Bits<int32_t>(Abs(x)); }

HWY_INLINE uint32_t Largest(I16 magnitudes) {
  alignas(64) int32_t lane[kLanes];
  Store16(magnitudes, lane);
  return static_cast<uint32_t>(*std::max_element(lane, lane + kLanes));
}

// What |m̂| / root is surely below: the approximations err by less than 2^-7, the product lr·m̂ by
// less than 2^-140 where it is subnormal. A NaN stays one.
struct StepBound {
  F16 rate, correction2, most, more, tiny;

  HWY_INLINE StepBound(const OptimizerNumbers& n, float step)
      : rate(Set16(std::fabs(step / n.correction1))),
        correction2(Set16(1.0f / n.correction2)),
        most(Set16(n.eps > 0 ? 1.0f / n.eps : float_of_bits(kFloatInf))),
        more(Set16(1.0f + 0x1p-5f)),
        tiny(Set16(0x1p-140f)) {}

  HWY_INLINE F16 operator()(const AdamMoments& a) const {
    const F16 v_hat = Mul(a.v, correction2);
#if HWY_TARGET == HWY_SCALAR
    const F16 inverse = Div(Set16(1.0f), Sqrt(v_hat));
#else
    const F16 inverse = ForParts<F16>(
        [&](size_t p) HWY_ATTR { return hn::ApproximateReciprocalSqrt(v_hat.part[p]); });
#endif
    const F16 step = Add(Mul(Abs(a.m), rate), tiny);
    return Mul(Mul(step, more), Min(most, inverse));  // of a NaN the second
  }
};

// Of x as it is rounded into a master or, without one, by a rule.
struct WeightMaximum {
  StepRules k;
  StepBound bound;
  F16 keep, rate;
  bool is_direct;

  HWY_INLINE WeightMaximum(const ChunkJob& job, const StepRules& rules)
      : k(rules),
        bound(job.numbers, job.master.kind != Stored16::none ? job.numbers.lr : job.step),
        keep(Set16(1.0f + std::fabs(job.numbers.lr * job.numbers.weight_decay))),
        rate(Set16(job.step)),
        is_direct(job.master.kind != Stored16::none) {}

  HWY_INLINE F16 Exact(F16 w, const AdamMoments& a) const {
    return is_direct ? NewWeight(k, w, a) : Add(w, Mul(rate, Direction(k, w, a)));
  }
  HWY_INLINE I16 Limit(F16 w, const AdamMoments& a) const {
    return Magnitude(Add(Mul(Add(Mul(Abs(w), keep), bound(a)), bound.more), bound.tiny));
  }
};

void FindMaxima(const ChunkJob& job, bool asks_weight, int64_t first, int64_t count,
                ChunkBuffers& b, ChunkMaxima& maxima) {
  const StepRules k = RulesOf(job.numbers, job.grad_scale);
  const ChunkTensor& stored = job.master.kind != Stored16::none ? job.master : job.value;
  const WeightMaximum weight(job, k);
  I16 largest = Set16(static_cast<int32_t>(maxima.weight));
  I16 m = Zero16<int32_t>(), v = m;
  for (int64_t at = first; at < first + count; at += kChunk) {
    const float* gs = ReadChunk(job.grad, at, b.g);
    const float* ms = ReadChunk(job.moment1, at, b.m);
    const float* vs = ReadChunk(job.moment2, at, b.v);
    const float* ws = asks_weight ? ReadChunk(stored, at, b.w) : gs;
    for (int64_t i = 0; i < kChunk; i += kLanes) {
      const AdamMoments a = MoveMoments(k, Load16(ms + i), Load16(vs + i), Load16(gs + i));
      m = Max(m, Magnitude(a.m));
      v = Max(v, Magnitude(a.v));
      if (!asks_weight) continue;
      const F16 w = Load16(ws + i);
      if (HWY_LIKELY(!AnyTrue(Gt(weight.Limit(w, a), largest)))) continue;
      const I16 exact = Magnitude(weight.Exact(w, a));
      if (AnyTrue(Gt(exact, largest))) largest = Set16(static_cast<int32_t>(Largest(exact)));
    }
  }
  maxima.weight = Largest(largest);
  maxima.moment1 = std::max(maxima.moment1, Largest(m));
  maxima.moment2 = std::max(maxima.moment2, Largest(v));
}

}  // namespace ng::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ng::cpu {
HWY_EXPORT(FindMaxima);

void find_maxima(const ChunkJob& job, bool asks_weight, int64_t first, int64_t count,
                 ChunkBuffers& buffers, ChunkMaxima& maxima) {
  HWY_DYNAMIC_DISPATCH(FindMaxima)(job, asks_weight, first, count, buffers, maxima);
}

}  // namespace ng::cpu
#endif
