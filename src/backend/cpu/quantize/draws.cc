// Philox4x32-10 on vectors: one draw group (128 bits, 8 elements) per 64-bit lane. The upper halves
// of the lanes hold leftovers that the 32 × 32 -> 64 bit products do not read.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/quantize/draws.cc"
#include <hwy/foreach_target.h>  // once per instruction set
#include <hwy/highway.h>

#include <bit>
#include <cstring>

#include "backend/cpu/quantize/kernels.h"
#include "base/error.h"

HWY_BEFORE_NAMESPACE();
namespace ng::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET != HWY_SCALAR
using Groups = hn::CappedTag<uint64_t, 8>;
using Halves = hn::Repartition<uint32_t, Groups>;

struct Counter {
  hn::Vec<Groups> word[4];
};

HWY_INLINE hn::Vec<Groups> Product(hn::Vec<Groups> a, uint32_t factor) {
  const Halves d;
  return hn::MulEven(hn::BitCast(d, a), hn::Set(d, factor));
}

// kWays counters at once hide the latency of the products.
template <int kWays>
HWY_INLINE void Rounds(uint64_t key, Counter* counter) {
  const Groups d;
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    for (int w = 0; w < kWays; ++w) {
      auto& c = counter[w].word;
      const auto p0 = Product(c[0], 0xD2511F53u);
      const auto p1 = Product(c[2], 0xCD9E8D57u);
      c[0] = hn::Xor3(hn::ShiftRight<32>(p1), c[1], hn::Set(d, uint64_t{k0}));
      c[2] = hn::Xor3(hn::ShiftRight<32>(p0), c[3], hn::Set(d, uint64_t{k1}));
      c[1] = p1;
      c[3] = p0;
    }
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
}

HWY_INLINE Counter CounterOf(const RandomKey& key, hn::Vec<Groups> group) {
  const Groups d;
  const PhiloxBlock zero = counter_of(key, 0);
  const auto high = hn::ShiftLeft<20>(hn::ShiftRight<32>(group));
  return {{group, hn::Or(high, hn::Set(d, uint64_t{zero[1]})), hn::Set(d, uint64_t{zero[2]}),
           hn::Set(d, uint64_t{zero[3]})}};
}

// Lanes l hold groups GroupOfLane(l), so that interleaving leaves the groups in order.
constexpr int64_t kGroupLanes = hn::MaxLanes(Groups());
constexpr int64_t GroupOfLane(int64_t lane) { return lane / 2 + lane % 2 * (kGroupLanes / 2); }

// The words of each group side by side: 16 bytes per group.
HWY_INLINE void StoreWords(const Counter& c, uint16_t* to) {
  const Groups d;
  const auto low = hn::Set(d, uint64_t{0xFFFFFFFFu});
  const auto first = hn::Or(hn::And(c.word[0], low), hn::ShiftLeft<32>(c.word[1]));
  const auto second = hn::Or(hn::And(c.word[2], low), hn::ShiftLeft<32>(c.word[3]));
  auto* const words = reinterpret_cast<uint64_t*>(to);
  hn::StoreU(hn::InterleaveLower(d, first, second), d, words);
  hn::StoreU(hn::InterleaveUpper(d, first, second), d, words + kGroupLanes);
}
#endif

HWY_INLINE void DrawOne(const RandomKey& key, uint64_t group, uint16_t* to) {
  const PhiloxBlock block = draw(key, group);
  std::memcpy(to, block.data(), sizeof(block));  // low half of each word first
}

// Group i of a sequence: runs of consecutive groups, `stride` apart.
struct Sequence {
  uint64_t first;
  uint64_t stride;
  int run_bits;  // 2^run_bits consecutive groups

  HWY_INLINE uint64_t operator[](int64_t i) const {
    const auto at = static_cast<uint64_t>(i);
    return first + (at >> run_bits) * stride + (at & ((uint64_t{1} << run_bits) - 1));
  }
};

// 8 draws of each of the first `count` groups.
HWY_INLINE void DrawSequence(const RandomKey& key, const Sequence& sequence, int64_t count,
                             uint16_t* draws) {
  int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  constexpr int kWays = 4;
  const Groups d;
  alignas(64) uint64_t offset[kGroupLanes];
  for (int64_t l = 0; l < kGroupLanes; ++l) offset[l] = sequence[GroupOfLane(l)] - sequence.first;
  const auto offsets = hn::Load(d, offset);
  const auto counter_at = [&](int64_t at) HWY_ATTR {
    return CounterOf(key, hn::Add(offsets, hn::Set(d, sequence[at])));
  };
  for (; i + kWays * kGroupLanes <= count; i += kWays * kGroupLanes) {
    Counter counter[kWays];
    for (int w = 0; w < kWays; ++w) counter[w] = counter_at(i + w * kGroupLanes);
    Rounds<kWays>(key.seed, counter);
    for (int w = 0; w < kWays; ++w) StoreWords(counter[w], draws + 8 * (i + w * kGroupLanes));
  }
  for (; i + kGroupLanes <= count; i += kGroupLanes) {
    Counter counter = counter_at(i);
    Rounds<1>(key.seed, &counter);
    StoreWords(counter, draws + 8 * i);
  }
#endif
  for (; i < count; ++i) DrawOne(key, sequence[i], draws + 8 * i);
}

void DrawRows(const RandomKey& key, const DrawBox& box, uint16_t* draws, int64_t stride) {
  for (int64_t r = 0; r < box.rows; ++r) {
    const uint64_t first = box.group + static_cast<uint64_t>(r) * box.group_stride;
    DrawSequence(key, {first, 0, 63}, box.groups, draws + r * stride);
  }
}

void DrawStrip(const RandomKey& key, const DrawBox& box, uint16_t* draws) {
  const int run_bits = std::countr_zero(static_cast<uint64_t>(box.groups));
  DrawSequence(key, {box.group, box.group_stride, run_bits}, box.groups * box.rows, draws);
}

void SplitHalves(const uint32_t* from, int64_t words, int64_t count, int64_t stride, uint16_t* to) {
  for (int64_t w = 0; w < words; ++w) {
    const uint32_t* x = from + w * stride;
    uint16_t* low = to + 2 * w * stride;
    uint16_t* high = low + stride;
    for (int64_t i = 0; i < count; ++i) low[i] = static_cast<uint16_t>(x[i]);
    for (int64_t i = 0; i < count; ++i) high[i] = static_cast<uint16_t>(x[i] >> 16);
  }
}

}  // namespace ng::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ng::cpu {
HWY_EXPORT(DrawRows);
HWY_EXPORT(DrawStrip);
HWY_EXPORT(SplitHalves);

void draw_rows(const RandomKey& key, const DrawBox& box, uint16_t* draws, int64_t stride) {
  HWY_DYNAMIC_DISPATCH(DrawRows)(key, box, draws, stride);
}
void draw_strip(const RandomKey& key, const DrawBox& box, uint16_t* draws) {
  NG_CHECK(std::has_single_bit(static_cast<uint64_t>(box.groups)), box.groups);
  HWY_DYNAMIC_DISPATCH(DrawStrip)(key, box, draws);
}
void split_halves(const uint32_t* from, int64_t words, int64_t count, int64_t stride,
                  uint16_t* to) {
  HWY_DYNAMIC_DISPATCH(SplitHalves)(from, words, count, stride, to);
}

}  // namespace ng::cpu
#endif
