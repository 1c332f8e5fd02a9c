// Casts and products of whole matrices on the emulated card, as `cast` and `matmul` ask for them,
// beside those of the cpu backend's kernels.
#include <gtest/gtest.h>

#include "format/hadamard.h"
#include "math/round.h"
#include "numbers/on_backend.h"
#include "numbers/product.h"
#include "run/backends.h"

namespace ng {
namespace {

/// Of many binades, rows and columns that no block divides.
std::vector<float> values_of(int64_t rows, int64_t cols, uint64_t seed) {
  std::vector<float> values;
  for (int64_t i = 0; i < rows * cols; ++i) {
    const PhiloxBlock random =
        draw({.seed = seed, .purpose = Purpose::data}, static_cast<uint64_t>(i));
    const float unit = static_cast<float>(random[0] >> 8) * 0x1p-24f - 0.5f;
    values.push_back(std::ldexp(unit, static_cast<int>(random[1] % 24) - 16));
  }
  return values;
}

std::vector<Operand> offered_casts() {
  std::vector<Operand> casts;
  for (const char* name : {"mxfp4", "mxfp6_e2m3", "mxfp6_e3m2", "mxfp8_e4m3", "mxfp8_e5m2"})
    for (const Rounding rounding : {Rounding::nearest, Rounding::stochastic}) {
      casts.push_back(operand_of(name));
      casts.back().rounding = rounding;
    }
  casts.push_back(operand_of("bf16"));
  casts.push_back(operand_of("fp16"));
  return casts;
}

void expect_same(const NarrowMatrix& got, const NarrowMatrix& want) {
  EXPECT_EQ(got.rows, want.rows);
  EXPECT_EQ(got.cols, want.cols);
  EXPECT_EQ(got.codes, want.codes);
  EXPECT_EQ(got.scales, want.scales);
  EXPECT_EQ(got.scale_codes, want.scale_codes);
  EXPECT_EQ(got.tensor_scale, want.tensor_scale);
  EXPECT_EQ(got.counts.saturated, want.counts.saturated);
  EXPECT_EQ(got.counts.flushed, want.counts.flushed);
}

TEST(CudaNumbers, CastsAreThoseOfTheCpuToTheBit) {
  const auto card = make_backend("cuda-emulated", {1});
  const int64_t rows = 37, cols = 70;
  const std::vector<float> values = values_of(rows, cols, 5);
  const Rows<const float> source{values.data(), rows, cols, cols};
  for (const Operand& cast : offered_casts())
    for (const Contract along : {Contract::cols, Contract::rows}) {
      SCOPED_TRACE(describe(cast) + (along == Contract::cols ? "" : " along the rows"));
      QuantizeOptions options;
      options.along = along;
      options.key = {.seed = 3, .tensor = 1, .purpose = Purpose::fprop_input};
      expect_same(quantize_on(*card, source, cast, options), quantize(source, cast, options, {1}));
    }
}

TEST(CudaNumbers, ProductsAreThoseOfTheCpuToTheBit) {
  const auto card = make_backend("cuda-emulated", {1});
  const std::vector<float> a = values_of(9, 70, 1), b = values_of(70, 11, 2);
  for (const auto& [left, right] :
       {std::pair("mxfp4", "mxfp4"), std::pair("mxfp8_e4m3", "mxfp4"), std::pair("bf16", "mxfp4"),
        std::pair("bf16", "bf16"), std::pair("fp32", "fp32")}) {
    SCOPED_TRACE(fmt::format("{} x {}", left, right));
    ProductJob job;
    job.a = {a.data(), 9, 70, 70};
    job.b = {b.data(), 70, 11, 11};
    job.b_is_turned = true;
    job.a_cast = operand_of(left);
    job.b_cast = operand_of(right);
    if (left == std::string("mxfp4")) job.hadamard = {.size = 64, .signs = fixed_signs()};
    EXPECT_EQ(product_on(*card, job), product(job));
  }
}

}  // namespace
}  // namespace ng
