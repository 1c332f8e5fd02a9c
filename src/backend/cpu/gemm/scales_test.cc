// Scales at the limits of FP32 against the definition, bit for bit.
#include <array>
#include <limits>

#include "backend/cpu/gemm/blocks_testing.h"
#include "backend/cpu/gemm/isa/microkernel.h"
#include "format/codec.h"

namespace ng::cpu {
namespace {

// A contribution of 288 · 2^120 is infinite, whatever was summed before.
TEST(GemmScales, ContributionsBeyondFp32) {
  for (const char* format : {"mxfp4", "mxfp6_e2m3", "mxfp6_e3m2", "mxfp8_e4m3", "mxfp8_e5m2"})
    check({format, operand_of(format), operand_of(format)}, {9, 50, 256}, Data::huge);
}

TEST(GemmScales, ProductsOfScalesThatAreSubnormal) {
  for (const std::string_view name : operand_names())
    check({std::string(name), operand_of(name), operand_of(name)}, {9, 50, 1024}, Data::small);
}

// Operands whose blocks have the scale 2^exponent, made to meet where FP32 has no more bits.
struct Edges {
  const ElementFormat& element;
  int exponent;
  int64_t rows, block;

  // Blocks of the largest sums, each twice the one before where `grows`, with changing signs.
  [[nodiscard]] std::vector<float> largest(bool grows) const {
    return values([&](int64_t b, int64_t) {
      return grows ? std::ldexp(b % 2 == 0 ? 1.0f : -1.0f, static_cast<int>(b)) : 1.0f;
    });
  }
  // The largest element at `place`, none at `empty`, else the smallest; one less in odd blocks.
  [[nodiscard]] std::vector<float> smallest(int64_t place, int64_t empty, bool one_less) const {
    const float least = min_subnormal(element) / max_value(element);
    return values([&](int64_t b, int64_t i) {
      if (i == empty || (one_less && b % 2 == 1 && i == 2)) return 0.0f;
      return i == place ? 1.0f : least;
    });
  }

 private:
  // Four blocks of share(block, index in it) of the largest element.
  template <class Share>
  [[nodiscard]] std::vector<float> values(const Share& share) const {
    std::vector<float> values;
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t i = 0; i < 4 * block; ++i)
        values.push_back(std::ldexp(share(i / block, i % block) * max_value(element), exponent));
    return values;
  }
};

// Where FP32 stops multiplying sums and scales exactly.
TEST(GemmScales, LimitsOfPlainScales) {
  for (const char* name : {"mxint8", "e2m3", "e2m1", "e3m2", "e4m3", "e5m2", "e5m6"})
    for (const int block : {16, 32, 256})
      for (const int left : {-60, -58, -57, -56, -55, 40, 42, 43, 44, 45, 46, 48})
        for (const int right : {left - 1, left, left + 1}) {
          Operand cast = operand_of("mxfp8_e4m3");
          cast.element = &element_format(name);
          cast.block.cols = block;
          const Pair pair{fmt::format("{} at 2^{} x 2^{}", name, left, right), cast, cast};
          const Edges a{*cast.element, left, 3, block}, b{*cast.element, right, 5, block};
          const Shape shape{3, 5, 4 * block};
          check_values(pair, shape, a.largest(true), b.largest(false));
          check_values(pair, shape, a.smallest(0, 1, true), b.smallest(1, 0, false));
        }
}

// The scale of these is the code that blocks of zeros have too, in every form that elements take.
TEST(GemmScales, BlocksBelowTheSmallestScale) {
  for (const char* name : {"mxint8", "e2m1", "e4m3", "e3m5", "e5m6", "e7m1"}) {
    Operand cast = operand_of("mxfp8_e4m3");
    cast.element = &element_format(name);
    std::vector<float> tiny(2 * 64), ones(3 * 64, 1.0f);
    tiny[20] = 0x1.8p-127f;
    check_values({name, cast, cast}, {2, 3, 64}, tiny, ones);
    check_values({name, cast, cast}, {3, 2, 64}, ones, tiny);
  }
}

// Panels of one segment of 16 values: words of int8, E4M3 scales.
struct Segment {
  static constexpr int64_t kWords = 4;
  static constexpr std::array<int, 4> kValues = {12, -1, 6, -3};

  std::vector<uint32_t> a, b;
  std::vector<int32_t> starts;
  std::vector<float> left, right;

  Segment(const Microkernel& kernel, int first_left, int first_right) {
    const auto rows = static_cast<size_t>(kernel.rows), cols = static_cast<size_t>(kernel.cols);
    a.assign(kWords * rows, word(0));
    b.assign(kWords * cols, word(128));
    for (size_t i = 0; i < rows; ++i) left.push_back(scale(first_left + static_cast<int>(i)));
    for (size_t j = 0; j < cols; ++j) right.push_back(scale(first_right + static_cast<int>(j)));
    starts.assign(rows, -128 * static_cast<int>(kWords) * (12 - 1 + 6 - 3));
  }
  [[nodiscard]] std::vector<float> products(const Microkernel& kernel, ScaledKernel* scaled) const {
    std::vector<float> y(static_cast<size_t>(kernel.rows) * static_cast<size_t>(kernel.cols));
    scaled({.count = kWords,
            .a = reinterpret_cast<const float*>(a.data()),
            .b = reinterpret_cast<const float*>(b.data()),
            .starts = starts.data(),
            .scales = {left.data(), right.data()}},
           {}, {y.data(), kernel.cols});
    return y;
  }

  static constexpr int kScales = 126;  // E4M3 from 2^-9 to 448
  // As the panels of a have them, times the unit of two E2M1 values.
  static float scale(int index) {
    return 0.25f * decode(element_format("e4m3"), static_cast<uint32_t>(1 + index % kScales));
  }

 private:
  static uint32_t word(int bias) {
    uint32_t bits = 0;
    for (size_t i = 0; i < kValues.size(); ++i)
      bits |= (static_cast<uint32_t>(kValues[i] + bias) & 0xFF) << (8 * i);
    return bits;
  }
};

// Every pair of scales.
TEST(GemmScales, ProductsLookedUpAreThoseMultiplied) {
  const Microkernel& kernel = current_microkernel();
  const DotKernels& dots = kernel.dots;
  if (dots.scaled_by_lookup == nullptr)
    GTEST_SKIP() << name_of(kernel.isa) << " looks no products of scales up";
  for (int i = 0; i < Segment::kScales; i += kernel.rows)
    for (int j = 0; j < Segment::kScales; j += kernel.cols) {
      const Segment segment(kernel, i, j);
      const std::vector<float> y = segment.products(kernel, dots.scaled);
      EXPECT_EQ(y[0], 4 * (144 + 1 + 36 + 9) * Segment::scale(i) * Segment::scale(j));
      EXPECT_EQ(y, segment.products(kernel, dots.scaled_by_lookup)) << i << ' ' << j;
    }
}

// A scale of 0, which makes codes of 0, and one that is NaN.
TEST(GemmScales, ScalesOfE4m3ThatCannotBeLookedUp) {
  const Operand cast = operand_of("nvfp4");
  std::vector<float> small(3 * 64, 1.0f), broken(3 * 64, 1.0f);
  std::fill_n(small.begin() + 16, 16, 1e-9f);
  std::fill_n(small.begin() + 64, 64, 0.0f);
  broken[20] = std::numeric_limits<float>::quiet_NaN();
  for (const auto& values : {small, broken}) {
    check_values({"nvfp4", cast, cast}, {3, 3, 64}, values, std::vector<float>(3 * 64, 2.0f));
    check_values({"nvfp4", cast, cast}, {3, 3, 64}, values, values);
  }
}

}  // namespace
}  // namespace ng::cpu
