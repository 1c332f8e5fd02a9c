// Draws against independent oracles: tests/golden/noise/philox, and the noise of eight million
// weights in tests/golden/noise/forward.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "backend/drawn_noise.h"
#include "math/weight_noise.h"
#include "study/noise_weights.h"
#include "support/golden_file.h"

namespace ng::study {
namespace {

/// Bit patterns of a tensor of 32 bits, however the file's reader widens them.
uint32_t word_of(const std::vector<int64_t>& values, size_t at) {
  return static_cast<uint32_t>(values[at]);
}

RandomKey key_of(const Json& parameters) {
  return {.seed = std::stoull(parameters["seed"].get<std::string>()),
          .tensor = parameters["tensor_id"],
          .step = parameters["step"],
          .purpose = static_cast<Purpose>(parameters["purpose"].get<int>()),
          .micro = parameters["micro"]};
}

TEST(PhiloxGolden, WordsOfGivenCounters) {
  const GoldenFile golden("noise/philox");
  size_t compared = 0;
  for (const std::string name : {"kat", "random"}) {
    const std::vector<uint64_t> keys = golden.words64(name + ".key");
    const std::vector<int64_t> counters = golden.integers(name + ".counter");
    const std::vector<int64_t> words = golden.integers(name + ".words");
    for (size_t i = 0; i < keys.size(); ++i) {
      PhiloxBlock counter{}, want{};
      for (size_t j = 0; j < 4; ++j) {
        counter[j] = word_of(counters, 4 * i + j);
        want[j] = word_of(words, 4 * i + j);
      }
      EXPECT_EQ(philox(keys[i], counter), want) << name << " " << i;
      ++compared;
    }
  }
  EXPECT_EQ(compared, 67u);
}

/// Words of all groups of a window and the bits of its elements.
void expect_window(const GoldenFile& golden, const std::string& name) {
  const Json& of = golden.cases()[name];
  const RandomKey key = key_of(of);
  const uint64_t cols = of["cols"], row0 = of["row0"], col0 = of["col0"];
  const uint64_t rows = of["rows"], shown = of["shown_cols"];
  const std::vector<int64_t> words = golden.integers(name + ".words");
  const uint64_t groups = (cols + 7) / 8, shown_groups = (shown + 7) / 8;
  ASSERT_EQ(words.size(), rows * shown_groups * 4);
  for (uint64_t r = 0; r < rows; ++r)
    for (uint64_t g = 0; g < shown_groups; ++g) {
      const PhiloxBlock found = draw(key, (row0 + r) * groups + col0 / 8 + g);
      for (size_t j = 0; j < 4; ++j)
        EXPECT_EQ(found[j], word_of(words, (r * shown_groups + g) * 4 + j)) << r << " " << g;
    }
  for (const int bits : {8, 16, 32}) {
    const std::vector<int64_t> want = golden.integers(fmt::format("{}.r{}", name, bits));
    ASSERT_EQ(want.size(), rows * shown);
    const uint32_t mask = bits == 32 ? ~0u : (1u << bits) - 1;
    for (uint64_t r = 0; r < rows; ++r)
      for (uint64_t c = 0; c < shown; ++c)
        EXPECT_EQ(random_bits(key, row0 + r, col0 + c, cols, bits),
                  word_of(want, r * shown + c) & mask)
            << bits << " bits at " << r << ", " << c;
  }
}

TEST(PhiloxGolden, BitsOfElements) {
  const GoldenFile golden("noise/philox");
  for (const char* name : {"plain", "odd", "one", "window"}) {
    SCOPED_TRACE(name);
    expect_window(golden, name);
  }
}

// Sign-mantissa nibbles of a whole tensor: what packs them differently, or skips a group, is seen.
TEST(DrawnNoise, OfEightMillionWeightsIsTheOracles) {
  const GoldenFile golden("noise/forward");
  const Json& of = golden.cases()["histogram"];
  const int64_t count = of["rows"].get<int64_t>() * of["cols"].get<int64_t>();
  const std::vector<int64_t> nibbles = golden.integers("histogram.nibbles");
  ASSERT_EQ(nibbles.size(), 16u);
  std::array<int64_t, 5> want{}, found{};
  for (uint32_t nibble = 0; nibble < 16; ++nibble)
    if (nibbles[nibble] > 0)
      want.at(static_cast<size_t>(rounded_normal_of(nibble) + 2)) += nibbles[nibble];
  for (const float r :
       drawn_noise(NoiseLaw::rounded_normal, key_of(of), count, {available_cores()}))
    ++found.at(static_cast<size_t>(r + 2));
  EXPECT_EQ(found, want);
}

// What the sections draw is what a backend's definition draws of the same tensor.
TEST(DrawnNoise, IsTheBackends) {
  const int64_t rows = 4, cols = 24;
  const std::vector<float> weight(static_cast<size_t>(rows * cols));
  const RandomKey key{.seed = 5, .tensor = 2, .step = 9, .purpose = Purpose::weight_noise};
  for (const auto& [law, kind] : {std::pair{NoiseLaw::rounded_normal, NoiseKind::gaussws},
                                  std::pair{NoiseLaw::diffq, NoiseKind::diffq}}) {
    const NoisyWeight of{.kind = kind,
                         .weight = ConstView(weight.data(), rows, cols, cols),
                         .bit_widths = {},
                         .block = {.kind = Block::Kind::tile, .rows = 32, .cols = 32},
                         .key = key};
    const std::vector<float> values = drawn_noise(law, key, rows * cols, {2});
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < cols; ++c)
        EXPECT_EQ(values[static_cast<size_t>(r * cols + c)], noise_at(of, r, c)) << r << ", " << c;
  }
}

// Noise of several work items, and of a part of them: groups are counted from the tensor's start.
TEST(DrawnNoise, BeginsAnywhere) {
  const RandomKey key = noise_stream(3, 1);
  const int64_t count = 3 * 8192 + 5, first = 8192 + 8;
  for (const NoiseLaw law : {NoiseLaw::rounded_normal, NoiseLaw::uniform4, NoiseLaw::uniform16}) {
    const std::vector<float> all = drawn_noise(law, key, count, {3});
    const std::vector<float> part = drawn_noise(law, key, count - first, {1}, first);
    EXPECT_TRUE(std::equal(part.begin(), part.end(), all.begin() + first, all.end()));
  }
}

// The smallest that is not 0 is 2^-4, and every sixteenth comes as often as any other.
TEST(DrawnNoise, OfFourBitsIsSixteenths) {
  std::array<int, 16> counts{};
  const int64_t count = 1 << 16;
  for (const float r : drawn_noise(NoiseLaw::uniform4, noise_stream(7, 1), count, {1})) {
    const float sixteenths = 16 * r + 8;
    ASSERT_EQ(sixteenths, std::floor(sixteenths));
    ++counts.at(static_cast<size_t>(sixteenths));
  }
  for (const int each : counts) EXPECT_NEAR(each, count / 16, 5 * std::sqrt(count / 16));
}

}  // namespace
}  // namespace ng::study
