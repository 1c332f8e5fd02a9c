// The kernels of coded states give the bits of the scalar definitions, on every instruction set.
#include "backend/cpu/update/coded_blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/isa.h"
#include "math/normal.h"

namespace ng::cpu {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// Blocks of many ranges and lengths, with zeros, subnormals and what is not finite.
std::vector<std::vector<float>> coded_blocks() {
  std::vector<std::vector<float>> all = {{0, 0, -0.0f}, {1e-40f}, {-3.0f, 3.0f}};
  uint32_t tensor = 0;
  for (const size_t count : {1u, 15u, 16u, 37u, 128u, 256u})
    for (const float spread : {0.0f, 1.0f, 5.0f, 30.0f})
      for (const float scale : {1.0f, 1e-20f, 1e-38f, 1e20f}) {
        std::vector<float> block(count), exponents(count);
        math::fill_normal({.seed = 3, .tensor = ++tensor}, 1, block);
        math::fill_normal({.seed = 4, .tensor = tensor}, 1, exponents);
        for (size_t i = 0; i < count; ++i) block[i] *= scale * std::exp(spread * exponents[i]);
        if (count > 16) block[7] = 0, block[16] = -0.0f;
        all.push_back(block);
      }
  for (const float bad : {kInf, -kInf, kNan, -kNan}) {
    all.push_back(all[20]);
    all.back()[0] = bad;
  }
  return all;
}

template <class Body>
void for_blocks_on_every_isa(const Body& body) {
  for (const Isa isa : supported_isas()) {
    SCOPED_TRACE(name_of(isa));
    force_isa(isa);
    for (const std::vector<float>& block : coded_blocks()) body(block, std::ssize(block));
    if (testing::Test::HasFailure()) break;
  }
  force_isa(supported_isas().back());
}

/// NaN has no sign that anything reads.
bool same_number(float a, float b) {
  return float_bits(a) == float_bits(b) || (std::isnan(a) && std::isnan(b));
}

TEST(CodedBlocks, RangesLeaveOutZerosAndNan) {
  for_blocks_on_every_isa([](const std::vector<float>& block, int64_t count) {
    float most = 0, least = kInf;
    for (const float x : block) {
      const float a = std::fabs(x);
      if (a > most) most = a;
      if (a != 0 && a < least) least = a;
    }
    const BlockRange range = block_range(block.data(), count);
    ASSERT_EQ(range.most, most);
    ASSERT_EQ(range.least, least == kInf ? 0 : least);
  });
}

TEST(CodedBlocks, ExpandAsDefined) {
  for_blocks_on_every_isa([](const std::vector<float>& block, int64_t count) {
    const BlockRange range = block_range(block.data(), count);
    const Expansion expansion = expansion_of(range.most, range.least);
    const ExpandedLimits limits(expansion);
    const ExpandedValues values(expansion);
    std::vector<uint8_t> codes(block.size());
    write_expanded_block(expansion, block.data(), count, codes.data());
    for (size_t i = 0; i < block.size(); ++i) ASSERT_EQ(codes[i], limits.code(block[i])) << i;
    std::vector<uint8_t> every(256);
    for (size_t i = 0; i < every.size(); ++i) every[i] = static_cast<uint8_t>(i);
    std::vector<float> back(every.size());
    read_expanded_block(expansion, every.data(), 256, back.data());
    for (size_t i = 0; i < every.size(); ++i)
      ASSERT_TRUE(same_number(back[i], values.value(every[i]))) << i;
    back[37] = 5;
    read_expanded_block(expansion, every.data(), 37, back.data());
    ASSERT_EQ(back[37], 5);
  });
}

// What no block has: a file's numbers, of which anything may come out, but the same everywhere.
TEST(CodedBlocks, ReadWhatNoBlockWrites) {
  for_blocks_on_every_isa([](const std::vector<float>&, int64_t) {
    for (const Expansion& e : {Expansion{0, 1, 1}, Expansion{1, 0, 1}, Expansion{kNan, 1, 1},
                               Expansion{1, -2, 3e38f}, Expansion{1e30f, 0.0625f, kInf}}) {
      const ExpandedValues values(e);
      const uint8_t codes[] = {0, 1, 7, 8, 126, 127, 255};
      float back[std::size(codes)];
      read_expanded_block(e, codes, std::size(codes), back);
      for (size_t i = 0; i < std::size(codes); ++i) {
        const float want = values.value(codes[i]);
        ASSERT_TRUE(same_number(back[i], want)) << back[i] << " " << want;
      }
    }
  });
}

TEST(CodedBlocks, AreMappedAsDefined) {
  for_blocks_on_every_isa([](const std::vector<float>& block, int64_t count) {
    const float most = block_range(block.data(), count).most;
    for (const bool is_positive : {false, true})
      for (const float inverse : {1 / (most == 0 ? 1 : most), 1.0f, kInf}) {
        std::vector<uint8_t> codes(block.size());
        write_mapped_block(is_positive, inverse, block.data(), count, codes.data());
        for (size_t i = 0; i < block.size(); ++i)
          ASSERT_EQ(codes[i], DynamicMap::of(is_positive).code(block[i], inverse)) << block[i];
      }
  });
}

// Every midpoint, and the numbers beside it.
TEST(CodedBlocks, MapAllMidpoints) {
  for_blocks_on_every_isa([](const std::vector<float>&, int64_t) {
    for (const bool is_positive : {false, true}) {
      std::vector<float> y;
      for (const float middle : DynamicMap::of(is_positive).middles())
        for (const float toward : {-2.0f, middle, 2.0f})
          y.push_back(std::nextafter(middle, toward));
      std::vector<uint8_t> codes(y.size());
      write_mapped_block(is_positive, 1, y.data(), std::ssize(y), codes.data());
      for (size_t i = 0; i < y.size(); ++i)
        ASSERT_EQ(codes[i], DynamicMap::of(is_positive).code(y[i])) << y[i];
    }
  });
}

TEST(CodedBlocks, AreHeldInTwoPartsAsDefined) {
  for_blocks_on_every_isa([](const std::vector<float>& block, int64_t count) {
    for (const float most : {0x1.FEp+127f, kInf}) {
      std::vector<Bf16> high(block.size()), low(block.size());
      std::vector<float> back(block.size());
      write_two_parts(most, block.data(), count, high.data(), low.data());
      read_two_parts(high.data(), low.data(), count, back.data());
      for (size_t i = 0; i < block.size(); ++i) {
        const Bf16 first = to_bf16(std::clamp(block[i], -most, most));
        const Bf16 rest = to_bf16(std::clamp(block[i] - widened(first), -most, most));
        ASSERT_EQ(high[i].bits, first.bits) << block[i];
        ASSERT_EQ(low[i].bits, rest.bits) << block[i];
        ASSERT_EQ(float_bits(back[i]), float_bits(widened(first) + widened(rest))) << block[i];
      }
    }
  });
}

}  // namespace
}  // namespace ng::cpu
