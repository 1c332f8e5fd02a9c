#include "numbers/measured_product.h"

#include <gtest/gtest.h>

#include <cmath>

namespace ng {
namespace {

/// (2, 3) · (2, 3)ᵀ of small integers, exact in FP32.
ProductJob job_of(const std::string& format) {
  static const std::vector<float> a = {1, 2, 3, 4, 5, 6}, b = {7, -8, 9, 10, 11, -12};
  return {.a = {a.data(), 2, 3, 3},
          .b = {b.data(), 2, 3, 3},
          .a_cast = operand_of(format),
          .b_cast = operand_of(format),
          .hadamard = {},
          .threads = Threads{2}};
}

TEST(MeasuredProduct, ExactWhereEveryFormatIs) {
  int64_t rows = 0;
  const MeasuredProduct product = measure_product(job_of("bf16"), [&](int64_t n) { rows = n; });
  EXPECT_EQ(rows, 2);
  EXPECT_EQ(product.c, (std::vector<float>{18, -4, 42, 23}));
  for (const ErrorMetrics& errors : {product.total, product.quantization, product.accumulation}) {
    EXPECT_EQ(errors.values, 4U);
    EXPECT_TRUE(std::isinf(errors.sqnr_db)) << errors.sqnr_db;
  }
}

TEST(MeasuredProduct, TellsRoundingFromAccumulation) {
  const MeasuredProduct product = measure_product(job_of("mxfp4"), [](int64_t) {});
  EXPECT_GT(product.quantization.max_abs, 0);
  EXPECT_EQ(product.accumulation.max_abs, 0);  // few products of E2M1 are summed exactly
  EXPECT_EQ(product.total.max_abs, product.quantization.max_abs);
  EXPECT_EQ(product.a_counts.values, 6U);
}

TEST(MeasuredProduct, TakesTheRightMatrixTurned) {
  const std::vector<float> turned = {7, 10, -8, 11, 9, -12};
  ProductJob job = job_of("nvfp4");
  const std::vector<float> want = measure_product(job, [](int64_t) {}).c;
  job.b = {turned.data(), 3, 2, 2};
  job.b_is_turned = true;
  EXPECT_EQ(measure_product(job, [](int64_t) {}).c, want);
}

}  // namespace
}  // namespace ng
