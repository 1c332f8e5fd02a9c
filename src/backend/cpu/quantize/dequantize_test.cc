// The vector kernel against the scalar formula, to the bit, on every instruction set.
#include "backend/cpu/quantize/dequantize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "backend/cpu/kernel_testing.h"
#include "format/codec.h"
#include "format/exmy.h"

namespace ng::cpu {
namespace {

constexpr float kUntouched = 12345.0f;

/// Every row of the table of at most 16 bits, and eXmY formats at the limits.
std::vector<const ElementFormat*> formats() {
  std::vector<const ElementFormat*> all;
  for (const ElementFormat& format : element_formats())
    if (format.bits <= 16) all.push_back(&format);
  for (const char* name : {"e7m0", "e1m6", "e1m2", "e2m5fn", "e8m3", "e8m7fnuz", "e5m10fnuz"})
    all.push_back(&element_format(name));
  return all;
}

float formula(const ElementCodec& codec, const CodedRow& row, int64_t c) {
  const float element = codec.decode(row.codes[c]);
  if (row.scales == nullptr) return element;
  const int64_t block = c / row.block;
  const float scale = row.scales[block];
  if (row.zeros != nullptr && row.zeros[block] != 0)
    return (element - static_cast<float>(row.zeros[block])) * scale;
  return element * scale * row.tensor_scale;
}

void expect_formula(const ElementFormat& format, const CodedRow& row) {
  const ElementCodec codec(format);
  std::vector<float> values(static_cast<size_t>(row.cols) + 1, kUntouched);
  dequantize_row(code_decoder(format), row, values.data());
  for (int64_t c = 0; c < row.cols; ++c) {
    const float got = values[static_cast<size_t>(c)], want = formula(codec, row, c);
    if (std::isnan(want) && std::isnan(got)) continue;
    ASSERT_EQ(float_bits(got), float_bits(want))
        << format.short_name << " code " << row.codes[c] << " at " << c << " of " << row.cols;
  }
  EXPECT_EQ(values.back(), kUntouched);
}

TEST(Dequantize, EveryCodeWithoutScale) {
  on_every_isa([] {
    for (const ElementFormat* format : formats()) {
      std::vector<uint16_t> codes(code_count(*format));
      for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<uint16_t>(i);
      ASSERT_NO_FATAL_FAILURE(
          expect_formula(*format, {.codes = codes.data(), .cols = std::ssize(codes)}));
    }
  });
}

TEST(Dequantize, ScalesZerosAndRaggedEdges) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> some = {0.75f, 0x1p-127f, 0x1p120f, 0.0f, 3.0f, nan, 0x1.8p-3f};
  std::vector<float> scales(70);
  std::vector<uint8_t> zeros(70);
  for (size_t i = 0; i < scales.size(); ++i) {
    scales[i] = some[i % some.size()];
    zeros[i] = static_cast<uint8_t>(i % 3 * 5);
  }
  on_every_isa([&] {
    for (const ElementFormat* format : formats()) {
      const uint64_t count = code_count(*format);
      std::vector<uint16_t> codes(71);
      for (size_t i = 0; i < codes.size(); ++i)
        codes[i] = static_cast<uint16_t>(i * 40503 / 7 % count);
      const bool is_affine = format->kind == ElementKind::integer && !format->is_signed;
      for (const int64_t cols : {0, 1, 15, 16, 17, 32, 45, 70})
        for (const int64_t block : {1, 2, 8, 16, 32, 128})
          ASSERT_NO_FATAL_FAILURE(
              expect_formula(*format, {.codes = codes.data() + 1,
                                       .cols = cols,
                                       .block = block,
                                       .scales = scales.data(),
                                       .zeros = is_affine ? zeros.data() : nullptr,
                                       .tensor_scale = 0x1.abp-5f}))
              << "block " << block;
    }
  });
}

}  // namespace
}  // namespace ng::cpu
