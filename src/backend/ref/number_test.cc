// Values of tensors of every element, with scales and without.
#include "backend/ref/number.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "backend/ref/elementwise.h"

namespace ng::ref {
namespace {

using Bytes = std::vector<std::byte>;

bool same(float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); }

// Each value is put alone between others, which stay as they were: elements of less than a byte
// share theirs.
TEST(Numbers, EveryCodeOfEveryElementIsWrittenAndReadAlone) {
  for (const ElementFormat& f : element_formats()) {
    if (f.bits > 16) continue;
    const auto cols = static_cast<int64_t>(code_count(f));
    Bytes memory(bytes_of(f, 2 * (cols + 8)));
    const View all(memory.data(), f, 2, cols, cols + 8);
    const Writer y(all);
    for (const int64_t step : {1, 3})  // from neighbours below, and between them
      for (int64_t first = 0; first < step; ++first)
        for (int64_t c = first; c < cols; c += step)
          y.put(1, c, decode(f, static_cast<uint32_t>(c)));
    for (int64_t c = 0; c < cols; ++c) {
      const float value = decode(f, static_cast<uint32_t>(c));  // int8 has a -128, but writes none
      const float expected = decode(f, encode(f, value, {}, OverflowRule::special));
      ASSERT_TRUE(same(y(1, c), expected)) << f.name << " " << c;
    }
    const Bytes untouched(bytes_of(f, cols + 8));
    EXPECT_EQ(std::memcmp(memory.data(), untouched.data(), untouched.size()), 0) << f.name;
  }
}

TEST(Numbers, OutputsAreRoundedOnceToNearestEven) {
  const std::array<float, 4> x = {1.0f + 0x1p-8f, 1.0f + 3 * 0x1p-8f, 3.4e38f,
                                  std::numeric_limits<float>::quiet_NaN()};
  const auto stored = [&](const char* element, size_t i) {
    const ElementFormat& f = element_format(element);
    Bytes memory(bytes_of(f, 1));
    const View y(memory.data(), f, 1, 1, 1);
    perform(Copy{.y = y, .x = {&x[i], 1, 1, 1}});
    return Reader(y)(0, 0);
  };
  EXPECT_EQ(stored("bf16", 0), 1.0f);
  EXPECT_EQ(stored("bf16", 1), 1.0f + 0x1p-6f);
  EXPECT_EQ(stored("bf16", 2), std::numeric_limits<float>::infinity());
  EXPECT_EQ(stored("fp16", 2), std::numeric_limits<float>::infinity());
  EXPECT_EQ(stored("fp32", 2), 3.4e38f);
  EXPECT_TRUE(std::isnan(stored("e4m3", 2)));
  EXPECT_EQ(stored("e2m1", 2), 6.0f);
  for (const char* element : {"fp32", "bf16", "fp16", "e5m2"})
    EXPECT_TRUE(std::isnan(stored(element, 3))) << element;
}

// An output in BF16 is made of inputs rounded to BF16, whatever they are stored as.
TEST(Numbers, OutputsInBf16ReadTheirInputsSo) {
  const float a = 1.0f + 3 * 0x1p-9f, b = 0x1p-9f;
  Bf16 narrow;
  float wide = 0;
  perform(Add{.y = {&narrow, 1, 1, 1}, .a = {&a, 1, 1, 1}, .b = {&b, 1, 1, 1}});
  EXPECT_EQ(widened(narrow), 1.0f + 0x1p-7f);  // a alone is rounded up to that, b lost to a tie
  perform(Add{.y = {&wide, 1, 1, 1}, .a = {&narrow, 1, 1, 1}, .b = {&b, 1, 1, 1}});
  EXPECT_EQ(wide, 1.0f + 0x1p-7f + 0x1p-9f);
}

TEST(Numbers, ScalesOfBlocksAndOfTheTensorAreRead) {
  // 2 × 6 values of FP4, all 1.5 (code 3); E8M0 scales of blocks of 1 × 4 and 2 × 4.
  Bytes codes(8, std::byte{0x33});
  Bytes scales(4);
  for (size_t i = 0; i < 4; ++i) scales[i] = static_cast<std::byte>(127 + i);
  const float tensor = 0.75f;
  ConstView x(codes.data(), element_format("e2m1"), 2, 6, 8);
  x.scales = {scales.data(), &element_format("e8m0"), {Block::Kind::tile, 1, 4}, nullptr};
  const auto values = [&] {
    std::array<float, 12> y{};
    perform(Copy{.y = {y.data(), 2, 6, 6}, .x = x});
    return y;
  };
  EXPECT_EQ(values(), (std::array<float, 12>{1.5, 1.5, 1.5, 1.5, 3, 3, 6, 6, 6, 6, 12, 12}));
  x.scales.block.rows = 2;
  x.scales.tensor = &tensor;
  const float low = 1.5f * 0.75f, high = 3 * 0.75f;
  EXPECT_EQ(values(), (std::array<float, 12>{low, low, low, low, high, high,  //
                                             low, low, low, low, high, high}));
  const std::array<float, 2> by_row = {0.1f, 7};
  x.scales = {reinterpret_cast<const std::byte*>(by_row.data()),
              &fp32_format(),
              {Block::Kind::row},
              nullptr};
  EXPECT_EQ(values()[5], 1.5f * 0.1f);
  EXPECT_EQ(values()[6], 1.5f * 7);
  x.scales.block.kind = Block::Kind::tensor;
  EXPECT_EQ(values()[11], 1.5f * 0.1f);
}

TEST(Numbers, WhatRefCannotDoIsRefusedByName) {
  Bytes codes(4), scale(1);
  View y(codes.data(), element_format("e2m1"), 1, 8, 8);
  y.scales = {scale.data(), &element_format("e8m0"), {}, nullptr};
  EXPECT_THROW(Writer{y}, Unsupported);
  try {
    (void)fp32_rows(y, "adamw");
    FAIL() << "accepted";
  } catch (const Unsupported& lack) {
    EXPECT_EQ(std::string(lack.what()), "ref: adamw of float4_e2m1fn");
  }
}

}  // namespace
}  // namespace ng::ref
