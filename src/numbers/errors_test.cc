#include "numbers/errors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "numbers/narrow_matrix.h"

namespace ng {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

ErrorMetrics metrics_of(const std::vector<float>& x, const std::vector<float>& q) {
  ErrorSums sums;
  sums.add(std::span<const float>(x), q);
  return sums.metrics();
}

TEST(Errors, ByHand) {
  const ErrorMetrics m = metrics_of({4, -2, 0, 0.5f}, {3, -2.5f, 0, 0});  // e: -1 -0.5 0 -0.5
  EXPECT_EQ(m.values, 4U);
  EXPECT_DOUBLE_EQ(m.mse, 1.5 / 4);
  EXPECT_DOUBLE_EQ(m.relative_mse, 1.5 / 20.25);
  EXPECT_DOUBLE_EQ(m.sqnr_db, -10 * std::log10(1.5 / 20.25));
  EXPECT_EQ(m.max_abs, 1);
  EXPECT_EQ(m.max_relative, 1);
  EXPECT_DOUBLE_EQ(m.underflow, 1.0 / 3);
  EXPECT_DOUBLE_EQ(m.bias, -2 / 6.5);
}

TEST(Errors, WithoutErrorAndWithoutSignal) {
  const ErrorMetrics exact = metrics_of({1, 2}, {1, 2});
  EXPECT_EQ(exact.sqnr_db, std::numeric_limits<double>::infinity());
  EXPECT_EQ(exact.relative_mse, 0);
  for (const ErrorMetrics& m : {metrics_of({0, 0}, {0, 0}), metrics_of({}, {})}) {
    EXPECT_TRUE(std::isnan(m.sqnr_db));
    EXPECT_TRUE(std::isnan(m.relative_mse));
    EXPECT_TRUE(std::isnan(m.bias));
    EXPECT_EQ(m.mse, 0);
    EXPECT_EQ(m.underflow, 0);
  }
}

TEST(Errors, OnlyOfFiniteValues) {
  const ErrorMetrics m = metrics_of({kNaN, kInf, -kInf, 2}, {0, 448, -448, 1});
  EXPECT_EQ(m.values, 1U);
  EXPECT_EQ(m.mse, 1);
  EXPECT_EQ(m.max_abs, 1);
  const ErrorMetrics lost = metrics_of({1, 2}, {1, kNaN});  // a NaN block
  EXPECT_TRUE(std::isnan(lost.mse) && std::isnan(lost.sqnr_db) && std::isnan(lost.max_abs));
  const ErrorMetrics over = metrics_of({1, 1e9f}, {1, kInf});  // overflow "special"
  EXPECT_EQ(over.mse, std::numeric_limits<double>::infinity());
  EXPECT_EQ(over.sqnr_db, -std::numeric_limits<double>::infinity());
}

TEST(Errors, SaturationIsWhatTheEncoderCounted) {
  ErrorSums sums;
  const std::vector<float> x = {7, 1, 1, 1}, q = {6, 1, 1, 1};
  sums.add(std::span<const float>(x), q);
  sums.add_saturated(1);
  EXPECT_EQ(sums.metrics().saturation, 0.25);
}

TEST(Errors, DoNotDependOnThreads) {
  std::vector<float> x(300 * 1000), q(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = std::sin(static_cast<float>(i));
    q[i] = x[i] * 1.01f;
  }
  const Rows<const float> a{x.data(), 300, 1000, 1000}, b{q.data(), 300, 1000, 1000};
  const ErrorMetrics one = error_sums(a, b, {1}).metrics();
  EXPECT_EQ(one.mse, error_sums(a, b, {3}).metrics().mse);
  EXPECT_NEAR(one.relative_mse, 1e-4, 1e-7);
}

// formats.md §8: int4 of N(0,1) in blocks of 16: 21.39 dB with FP32 scales.
TEST(Errors, OfInt4AsMeasured) {
  std::vector<float> x(1 << 18);
  for (size_t i = 0; i < x.size(); i += 2) {  // Box-Muller on a grid of draws
    const auto u = [&](size_t j) {
      return (random_bits({.seed = 1}, j, 0, 8, 32) + 0.5) / 4294967296.0;
    };
    const double radius = std::sqrt(-2 * std::log(u(i))), angle = 2 * M_PI * u(i + 1);
    x[i] = static_cast<float>(radius * std::cos(angle));
    x[i + 1] = static_cast<float>(radius * std::sin(angle));
  }
  const Rows<const float> source{x.data(), 256, 1024, 1024};
  Operand int4 = operand_of("int4");
  int4.block = {Block::Kind::tile, 1, 16};
  const std::vector<float> q = dequantize(quantize(source, int4, {}, {1}), {1});
  EXPECT_NEAR(error_sums(source, {q.data(), 256, 1024, 1024}, {1}).metrics().sqnr_db, 21.39, 0.04);
}

}  // namespace
}  // namespace ng
