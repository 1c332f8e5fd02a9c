// Philox4x32-10 on vectors: one draw group (128 bits, 8 elements) per 64-bit lane. The upper halves
// of the lanes hold leftovers that the 32 × 32 -> 64 bit products do not read.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/quantize/draws.cc"
#include <hwy/foreach_target.h>  // once per instruction set
#include <hwy/highway.h>

#include <bit>
#include <cstring>
#include <utility>

#include "backend/cpu/quantize/kernels.h"
#include "base/error.h"
#include "math/weight_noise.h"

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

constexpr uint32_t kFactor0 = 0xD2511F53u, kFactor1 = 0xCD9E8D57u;
constexpr uint64_t kWeyl0 = 0x9E3779B9u, kWeyl1 = 0xBB67AE85u;

// The upper half of a product in the lower half, which is all that is read of it: shuffles have a
// unit of their own on CPUs whose multiplications share theirs with shifts.
HWY_INLINE hn::Vec<Groups> High(hn::Vec<Groups> product) {
  return hn::BitCast(Groups(), hn::Shuffle2301(hn::BitCast(Halves(), product)));
}

HWY_INLINE hn::Vec<Groups> Word(uint64_t value) {
  return hn::Set(Groups(), static_cast<uint64_t>(static_cast<uint32_t>(value)));
}

// What the first two rounds make of the words that all groups of a stream share: all but the
// lowest.
struct Stream {
  uint64_t k0, k1;             // of the third round
  hn::Vec<Groups> x2;          // round 1: word 2 = high(kFactor0 · group) ^ x2, word 3 = low
  hn::Vec<Groups> x0, y2, w3;  // round 2: word 0 = high(kFactor1 · word 2) ^ x0, word 1 = low,
                               // word 2 = word 3 ^ y2, word 3 = w3

  Stream(const RandomKey& key, uint64_t group)
      : k0(static_cast<uint32_t>(key.seed)), k1(key.seed >> 32) {
    const PhiloxBlock c = counter_of(key, group);
    x2 = Word(c[3] ^ k1);
    const uint64_t p1 = uint64_t{kFactor1} * c[2];
    const uint64_t p0 = kFactor0 * uint64_t{static_cast<uint32_t>((p1 >> 32) ^ c[1] ^ k0)};
    x0 = Word(p1 ^ (k0 + kWeyl0));
    y2 = Word((p0 >> 32) ^ (k1 + kWeyl1));
    w3 = Word(p0);
    k0 += 2 * kWeyl0;
    k1 += 2 * kWeyl1;
  }
};

HWY_INLINE Counter FirstRounds(const Stream& stream, hn::Vec<Groups> group) {
  const auto p0 = Product(group, kFactor0);
  const auto p1 = Product(hn::Xor(High(p0), stream.x2), kFactor1);
  return {{hn::Xor(High(p1), stream.x0), p1, hn::Xor(p0, stream.y2), stream.w3}};
}

// kWays counters at once hide the latency of the products.
template <int kWays>
HWY_INLINE void OtherRounds(const Stream& stream, Counter* counter) {
  uint64_t k0 = stream.k0, k1 = stream.k1;
  for (int round = 2; round < 10; ++round) {
    for (int w = 0; w < kWays; ++w) {
      auto& c = counter[w].word;
      const auto p0 = Product(c[0], kFactor0);
      const auto p1 = Product(c[2], kFactor1);
      c[0] = hn::Xor3(High(p1), c[1], Word(k0));
      c[2] = hn::Xor3(High(p0), c[3], Word(k1));
      c[1] = p1;
      c[3] = p0;
    }
    k0 += kWeyl0;
    k1 += kWeyl1;
  }
}

// Lanes l hold groups GroupOfLane(l), so that interleaving leaves the groups in order.
constexpr int64_t kGroupLanes = hn::MaxLanes(Groups());
constexpr int64_t GroupOfLane(int64_t lane) { return lane / 2 + lane % 2 * (kGroupLanes / 2); }

// The words of each group side by side: 16 bytes per group.
HWY_INLINE void StoreWords(const Counter& c, uint16_t* to) {
  const Groups d;
  const Halves d32;
  const auto pair = [&](int w) HWY_ATTR {
    const auto odd = hn::BitCast(d32, hn::ShiftLeft<32>(c.word[w + 1]));
    return hn::BitCast(d, hn::OddEven(odd, hn::BitCast(d32, c.word[w])));
  };
  const auto first = pair(0), second = pair(2);
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
HWY_INLINE void DrawSequence(RandomKey key, Sequence sequence, int64_t count, uint16_t* draws) {
  sequence.first += std::exchange(key.first_group, 0);  // counters are made of whole groups here
  int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  constexpr int kWays = 4;
  const Groups d;
  alignas(64) uint64_t offset[kGroupLanes];
  for (int64_t l = 0; l < kGroupLanes; ++l) offset[l] = sequence[GroupOfLane(l)] - sequence.first;
  const auto offsets = hn::Load(d, offset);
  const Stream stream(key, sequence.first);
  const auto counter_at = [&](int64_t at) HWY_ATTR {
    return FirstRounds(stream, hn::Add(offsets, hn::Set(d, sequence[at])));
  };
  // A sequence whose groups differ above 32 bits is no one stream.
  const bool is_stream = count > 0 && (sequence.first ^ sequence[count - 1]) >> 32 == 0;
  const int64_t whole = is_stream ? count / kGroupLanes * kGroupLanes : 0;
  for (; i + kWays * kGroupLanes <= whole; i += kWays * kGroupLanes) {
    Counter counter[kWays];
    for (int w = 0; w < kWays; ++w) counter[w] = counter_at(i + w * kGroupLanes);
    OtherRounds<kWays>(stream, counter);
    for (int w = 0; w < kWays; ++w) StoreWords(counter[w], draws + 8 * (i + w * kGroupLanes));
  }
  for (; i < whole; i += kGroupLanes) {
    Counter counter = counter_at(i);
    OtherRounds<1>(stream, &counter);
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

#if HWY_TARGET != HWY_SCALAR
// Rounded normal draws in the low halves of the lanes.
HWY_INLINE hn::Vec<Groups> RoundedNormals(const Counter& c) {
  const auto& r = c.word;
  const auto lowest = Word(0x11111111u);
  const auto t = hn::Or(r[0], r[1]);
  auto u = hn::And(r[2], r[3]);
  u = hn::And(u, hn::ShiftRight<1>(u));  // what comes from the upper half meets no lowest bit
  u = hn::And(u, hn::ShiftRight<2>(u));
  const auto two = hn::And(hn::And(u, t), lowest);
  const auto ones = hn::And(hn::And(hn::ShiftRight<1>(t), hn::ShiftRight<2>(t)),
                            hn::And(hn::ShiftRight<3>(r[0]), lowest));
  const auto one = hn::AndNot(two, ones);
  const auto sign = hn::And(hn::ShiftRight<1>(r[1]), Word(0x44444444u));
  return hn::Or(sign, hn::Or(hn::ShiftLeft<1>(two), one));
}
#endif

HWY_INLINE uint32_t NibblesOf(const PhiloxBlock& block) {
  const uint32_t word = rounded_normals(block);
  return (word & 0x33333333u) | ((word >> 1) & 0x44444444u);
}

// A word of eight nibbles of each of the `count` groups from `first` on.
HWY_INLINE void DrawNibbleRow(RandomKey key, uint64_t first, int64_t count, uint32_t* to) {
  first += std::exchange(key.first_group, 0);
  int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  constexpr int kWays = 4;
  const Groups d;
  const Halves d32;
  const auto offsets = hn::Iota(d, 0);
  const Stream stream(key, first);
  const bool is_stream = count > 0 && (first ^ (first + count - 1)) >> 32 == 0;
  const int64_t whole = is_stream ? count / (kWays * kGroupLanes) * (kWays * kGroupLanes) : 0;
  for (; i < whole; i += kWays * kGroupLanes) {
    Counter counter[kWays];
    for (int w = 0; w < kWays; ++w) {
      const uint64_t at = first + static_cast<uint64_t>(i + w * kGroupLanes);
      counter[w] = FirstRounds(stream, hn::Add(offsets, hn::Set(d, at)));
    }
    OtherRounds<kWays>(stream, counter);
    for (int w = 0; w < kWays; w += 2) {
      const auto low = hn::BitCast(d32, RoundedNormals(counter[w]));
      const auto high = hn::BitCast(d32, RoundedNormals(counter[w + 1]));
      hn::StoreU(hn::ConcatEven(d32, high, low), d32, to + i + w * kGroupLanes);
    }
  }
#endif
  for (; i < count; ++i) to[i] = NibblesOf(draw(key, first + static_cast<uint64_t>(i)));
}

void DrawNibbles(const RandomKey& key, const DrawBox& box, uint32_t* nibbles, int64_t stride) {
  for (int64_t r = 0; r < box.rows; ++r)
    DrawNibbleRow(key, box.group + static_cast<uint64_t>(r) * box.group_stride, box.groups,
                  nibbles + r * stride);
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
HWY_EXPORT(DrawNibbles);
HWY_EXPORT(SplitHalves);

void draw_rows(const RandomKey& key, const DrawBox& box, uint16_t* draws, int64_t stride) {
  HWY_DYNAMIC_DISPATCH(DrawRows)(key, box, draws, stride);
}
void draw_strip(const RandomKey& key, const DrawBox& box, uint16_t* draws) {
  NG_CHECK(std::has_single_bit(static_cast<uint64_t>(box.groups)), box.groups);
  HWY_DYNAMIC_DISPATCH(DrawStrip)(key, box, draws);
}
void draw_nibbles(const RandomKey& key, const DrawBox& box, uint32_t* nibbles, int64_t stride) {
  HWY_DYNAMIC_DISPATCH(DrawNibbles)(key, box, nibbles, stride);
}
void split_halves(const uint32_t* from, int64_t words, int64_t count, int64_t stride,
                  uint16_t* to) {
  HWY_DYNAMIC_DISPATCH(SplitHalves)(from, words, count, stride, to);
}

}  // namespace ng::cpu
#endif
