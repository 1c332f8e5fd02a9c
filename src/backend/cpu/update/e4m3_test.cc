// Codes and sums of codes against the definition, bit for bit, on every instruction set.
#include "backend/cpu/update/e4m3.h"

#include <array>
#include <random>

#include "backend/cpu/kernel_testing.h"
#include "backend/cpu/quantize/job.h"
#include "backend/ref/rank_sum.h"
#include "format/codec.h"

namespace ng::cpu {
namespace {

constexpr std::byte kUntouched{0xA5};

const ElementFormat& e4m3() { return element_format("e4m3"); }
ElementGrid grid() { return element_grid(e4m3(), Overflow::saturate); }

// All that is representable, what lies half between, and the FP32 numbers beside both; what is
// too small and too large.
std::vector<float> telling_values() {
  std::vector<float> values = {0.0f, 0x1p-149f, 0x1p-126f, 0x1p-11f, 449.0f, 464.0f, 1e30f, kInf};
  for (uint32_t code = 0; code < 0x7E; ++code) {
    const float low = decode(e4m3(), code), high = decode(e4m3(), code + 1);
    for (const float x : {low, (low + high) / 2, high})
      for (const float to : {0.0f, kInf}) values.insert(values.end(), {x, std::nextafter(x, to)});
  }
  for (size_t i = 0, positive = values.size(); i < positive; ++i) values.push_back(-values[i]);
  return values;
}

// The magnitude of NaN is the largest one: NaN itself is told by scales.
std::byte code_of(float x, const Rounder& rounder) {
  const float number = std::isnan(x) ? std::copysign(kInf, x) : x;
  return static_cast<std::byte>(encode(e4m3(), number, rounder));
}

void expect_codes(std::span<const float> values, float scale, bool is_stochastic) {
  std::mt19937 random(3);
  std::vector<uint16_t> draws(values.size() + 16);
  for (uint16_t& draw : draws) draw = static_cast<uint16_t>(random());
  std::vector<std::byte> codes(values.size() + 2, kUntouched);
  store_e4m3(grid(), values, scale, is_stochastic ? draws.data() : nullptr, &codes[1]);
  EXPECT_EQ(codes.front(), kUntouched);
  EXPECT_EQ(codes.back(), kUntouched) << values.size();
  for (size_t i = 0; i < values.size(); ++i) {
    Rounder rounder;
    if (is_stochastic) rounder = {RoundMode::sr, 16, draws[i]};
    ASSERT_EQ(codes[i + 1], code_of(values[i] * scale, rounder)) << values[i] << " · " << scale;
  }
}

TEST(StoreE4m3, TellingValues) {
  std::vector<float> values = telling_values();
  values.insert(values.end(), {kNan, -kNan});
  on_every_isa([&] {
    for (const bool is_stochastic : {false, true})
      for (const float scale : {1.0f, 0x1p-3f, 0x1p20f, 0.7f})
        expect_codes(values, scale, is_stochastic);
  });
}

TEST(StoreE4m3, AnyLength) {
  const std::vector<float> values = telling_values();
  on_every_isa([&] {
    for (size_t count = 0; count < 67; ++count)
      for (const bool is_stochastic : {false, true})
        expect_codes(std::span(values).subspan(101, count), 1.0f, is_stochastic);
  });
}

// ---------------------------------------------------------------- sums

using Codes = std::vector<std::byte>;

// As `ref` adds up what is one shard of its first rank's neighbour: in the order of ranks.
std::vector<float> sum_by_definition(const std::vector<Codes>& ranks, bool rounds_each) {
  std::vector<std::vector<float>> values;
  for (const Codes& codes : ranks) {
    std::vector<float>& decoded = values.emplace_back();
    for (const std::byte code : codes)
      decoded.push_back(decode(e4m3(), std::to_integer<uint32_t>(code)));
  }
  if (!rounds_each) return exact_sum(values);
  std::rotate(values.begin(), values.end() - 1, values.end());  // shard 0 begins with rank 1
  const int64_t count = std::ssize(ranks[0]);
  return ring_sum(e4m3(), values, 0, count * std::ssize(ranks));
}

void expect_sum(const std::vector<Codes>& ranks, bool rounds_each) {
  constexpr float kFactor = 0.3f;
  const std::vector<float> sums = sum_by_definition(ranks, rounds_each);
  std::vector<const std::byte*> codes;
  for (const Codes& of_rank : ranks) codes.push_back(of_rank.data());
  std::vector<float> mean(sums.size() + 2, -1.0f);
  const uint64_t largest = sum_e4m3(grid(), {.ranks = codes,
                                             .rounds_each = rounds_each,
                                             .factor = kFactor,
                                             .count = std::ssize(sums),
                                             .mean = &mean[1]});
  EXPECT_EQ(mean.front(), -1.0f);
  EXPECT_EQ(mean.back(), -1.0f) << sums.size();
  EXPECT_EQ(largest, count_largest(e4m3(), sums));
  for (size_t i = 0; i < sums.size(); ++i)
    ASSERT_TRUE(same_bits({mean[i + 1]}, {sums[i] * kFactor}))
        << i << ": " << mean[i + 1] << " and " << sums[i] * kFactor;
}

// NaN among them.
TEST(SumE4m3, AllPairsOfCodes) {
  std::vector<Codes> ranks(2);
  for (int i = 0; i < 256 * 256; ++i) {
    ranks[0].push_back(static_cast<std::byte>(i / 256));
    ranks[1].push_back(static_cast<std::byte>(i % 256));
  }
  on_every_isa([&] {
    for (const bool rounds_each : {false, true}) expect_sum(ranks, rounds_each);
  });
}

TEST(SumE4m3, AnyRanksAndLength) {
  std::mt19937 random(7);
  on_every_isa([&] {
    for (const size_t count : {1, 3, 5, 73})
      for (size_t length = 0; length < 40; ++length) {
        std::vector<Codes> ranks(count, Codes(length));
        for (Codes& codes : ranks)
          for (std::byte& code : codes) code = static_cast<std::byte>(random() & 0xF7);  // no NaN
        for (const bool rounds_each : {false, true}) expect_sum(ranks, rounds_each);
      }
  });
}

TEST(CountMagnitude, BytesButForTheirHighestBit) {
  std::vector<uint8_t> bytes;
  for (int i = 0; i < 300; ++i) bytes.push_back(static_cast<uint8_t>(i * 37));
  on_every_isa([&] {
    for (size_t count = 0; count <= bytes.size(); ++count) {
      uint64_t expected = 0;
      for (size_t i = 0; i < count; ++i) expected += bytes[i] % 128 == 0x7E ? 1 : 0;
      ASSERT_EQ(count_magnitude(std::span(bytes).first(count), 0x7E), expected) << count;
    }
  });
}

}  // namespace
}  // namespace ng::cpu
