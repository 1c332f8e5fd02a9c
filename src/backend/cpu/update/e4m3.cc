#include "backend/cpu/update/e4m3.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/update/e4m3.cc"
#include <hwy/foreach_target.h>  // once per instruction set

#include "backend/cpu/simd/kernel-inl.h"
#include "backend/cpu/update/chunk-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ng::cpu::HWY_NAMESPACE {

template <bool kStochastic>
HWY_INLINE void Store(const Rules& rules, std::span<const float> values, float encode,
                      const uint16_t* draws, std::byte* codes) {
  const F16 scale = Set16(encode);
  ForLanes(std::ssize(values), [&](int64_t i, auto left) HWY_ATTR {
    const U16 draw = kStochastic ? LoadHalves16<uint32_t>(draws + i) : Zero16<uint32_t>();
    const F16 y = Mul(Load16(values.data() + i, left), scale);
    StoreAsE4m3<kStochastic>(rules, y, draw, codes + i, left);
  });
}

void StoreE4m3Row(const ElementGrid& grid, std::span<const float> values, float encode,
                  const uint16_t* draws, std::byte* codes) {
  const Rules rules = RulesOf(grid, EncodeTile{});
  if (draws == nullptr)
    Store<false>(rules, values, encode, draws, codes);
  else
    Store<true>(rules, values, encode, draws, codes);
}

// ---------------------------------------------------------------- sums

/// Zeros after the first `left`, whose memory is not touched.
HWY_INLINE F16 LoadE4m3(const std::byte* from, int64_t left) {
  if (left >= kLanes) return LoadE4m3(from);
  std::byte padded[kLanes] = {};
  std::copy_n(from, left, padded);
  return LoadE4m3(padded);
}

/// NaN stays.
HWY_INLINE F16 RoundedSum(const Rules& rules, F16 sum) {
  const F16 rounded = RoundElement<Variant{Kind::small, false, true, ElementForm::bf16}>(
      rules, sum, Zero16<uint32_t>());
  return Select(Eq(sum, sum), rounded, sum);
}

template <bool kRoundsEach>
HWY_INLINE uint64_t SumOf(const Rules& rules, const E4m3Sum& op) {
  const F16 factor = Set16(op.factor);
  U16 largest = Zero16<uint32_t>();
  ForLanes(op.count, [&](int64_t i, auto left) HWY_ATTR {
    F16 sum = LoadE4m3(op.ranks[0] + i, left);
    if constexpr (!kRoundsEach) sum = Add(sum, Zero16());  // +0 where all are -0
    for (size_t rank = 1; rank < op.ranks.size(); ++rank) {
      sum = Add(sum, LoadE4m3(op.ranks[rank] + i, left));
      if constexpr (kRoundsEach) sum = RoundedSum(rules, sum);
    }
    largest = CountWhere(largest, Eq(Bits<int32_t>(Abs(sum)), rules.max));
    Store16(Mul(sum, factor), op.mean + i, left);
  });
  return Total(largest);
}

uint64_t SumE4m3(const ElementGrid& grid, const E4m3Sum& op) {
  const Rules rules = RulesOf(grid, EncodeTile{});
  return op.rounds_each ? SumOf<true>(rules, op) : SumOf<false>(rules, op);
}

// ---------------------------------------------------------------- counting

uint64_t CountMagnitude(std::span<const uint8_t> bytes, uint8_t byte) {
  const hn::ScalableTag<uint8_t> d;
  const auto magnitude = hn::Set(d, uint8_t{0x7F}), wanted = hn::Set(d, byte);
  uint64_t count = 0;
  size_t i = 0;
  for (; i + hn::Lanes(d) <= bytes.size(); i += hn::Lanes(d))
    count += hn::CountTrue(d, hn::Eq(hn::And(hn::LoadU(d, &bytes[i]), magnitude), wanted));
  for (; i < bytes.size(); ++i) count += (bytes[i] & 0x7F) == byte ? 1 : 0;
  return count;
}

}  // namespace ng::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ng::cpu {
HWY_EXPORT(StoreE4m3Row);
HWY_EXPORT(SumE4m3);
HWY_EXPORT(CountMagnitude);

void store_e4m3(const ElementGrid& grid, std::span<const float> values, float encode,
                const uint16_t* draws, std::byte* codes) {
  HWY_DYNAMIC_DISPATCH(StoreE4m3Row)(grid, values, encode, draws, codes);
}

uint64_t sum_e4m3(const ElementGrid& grid, const E4m3Sum& sum) {
  return HWY_DYNAMIC_DISPATCH(SumE4m3)(grid, sum);
}

uint64_t count_magnitude(std::span<const uint8_t> bytes, uint8_t byte) {
  return HWY_DYNAMIC_DISPATCH(CountMagnitude)(bytes, byte);
}

}  // namespace ng::cpu
#endif
