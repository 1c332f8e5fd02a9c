// Our elementary functions against the C library's in a wider type; errors in ulp of the result.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "math/erf.h"
#include "math/exp.h"
#include "math/log.h"
#include "math/normal.h"
#include "math/sincos.h"

namespace ng::math {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr double kInfDouble = std::numeric_limits<double>::infinity();

// |got - want| in units of the last place of an FP32 result, subnormals included.
double ulps(float got, double want) {
  const int exponent = std::max(std::ilogb(want), -126);
  return std::fabs(got - want) / std::ldexp(1.0, exponent - 23);
}

double ulps(double got, long double want) {
  const int exponent = std::max(std::ilogb(want), -1022);
  return static_cast<double>(std::fabs(got - want) / std::ldexp(1.0L, exponent - 52));
}

// Calls check(x) for every `step`-th FP32 pattern from 0 to `last`, and its negative.
template <class Check>
void sweep(float last, uint32_t step, const Check& check) {
  for (uint32_t bits = 0; bits <= std::bit_cast<uint32_t>(last); bits += step) {
    check(std::bit_cast<float>(bits));
    check(-std::bit_cast<float>(bits));
  }
}

TEST(Exp, IsWithinItsError) {
  double worst = 0;
  sweep(103.0f, 701, [&](float x) {
    const double want = std::exp(static_cast<double>(x));
    if (want > 3.4028234e38) return;
    worst = std::max(worst, ulps(exp(x), want));
  });
  EXPECT_LT(worst, 1.0);
}

TEST(Exp, GoesToItsLimits) {
  EXPECT_EQ(exp(0.0f), 1.0f);
  EXPECT_EQ(exp(-0.0f), 1.0f);
  EXPECT_EQ(exp(kInf), kInf);
  EXPECT_EQ(exp(-kInf), 0.0f);
  EXPECT_EQ(exp(88.8f), kInf);
  EXPECT_LT(exp(88.72f), kInf);
  EXPECT_EQ(exp(-104.5f), 0.0f);
  EXPECT_EQ(exp(-103.5f), 0x1p-149f);
  EXPECT_TRUE(std::isnan(exp(std::nanf(""))));
  EXPECT_TRUE(std::isnan(exp(-std::nanf(""))));
}

TEST(ExpOfDouble, IsWithinItsErrorAndGoesToItsLimits) {
  double worst = 0;
  for (double x = -744.9; x < 709.7; x += 0.000917)
    worst = std::max(worst, x < -708 ? 0.0 : ulps(exp(x), std::exp(static_cast<long double>(x))));
  EXPECT_LT(worst, 1.0);
  EXPECT_EQ(exp(0.0), 1.0);
  EXPECT_EQ(exp(kInfDouble), kInfDouble);
  EXPECT_EQ(exp(-kInfDouble), 0.0);
  EXPECT_EQ(exp(709.8), kInfDouble);
  EXPECT_EQ(exp(-745.0), 0x1p-1074);
  EXPECT_TRUE(std::isnan(exp(std::nan(""))));
}

TEST(Log, IsWithinItsErrorAndGoesToItsLimits) {
  double worst = 0;
  for (uint64_t bits = 1; bits < 0x7FF0000000000000u; bits += 9220000000037u) {
    const double x = std::bit_cast<double>(bits);
    worst = std::max(worst, ulps(log(x), std::log(static_cast<long double>(x))));
  }
  for (double x = 0.5; x < 2; x += 1.7e-6)
    if (x != 1) worst = std::max(worst, ulps(log(x), std::log(static_cast<long double>(x))));
  EXPECT_LT(worst, 1.0);
  EXPECT_EQ(log(1.0), 0.0);
  EXPECT_EQ(log(0.0), -kInfDouble);
  EXPECT_EQ(log(-0.0), -kInfDouble);
  EXPECT_EQ(log(kInfDouble), kInfDouble);
  EXPECT_TRUE(std::isnan(log(-1.0)));
  EXPECT_TRUE(std::isnan(log(std::nan(""))));
}

TEST(Log, OfSingleNumbersIsWithinItsError) {
  double worst = 0;
  for (uint32_t bits = 0x00800000u; bits < 0x7F800000u; bits += 4099) {
    const auto x = std::bit_cast<float>(bits);
    const double want = std::log(double{x});
    const double unit = std::max(std::fabs(want), 1.0) * 0x1p-24;
    worst = std::max(worst, std::fabs(double{log(x)} - want) / unit);
  }
  EXPECT_LT(worst, 2.0);
  EXPECT_EQ(log(1.0f), 0.0f);
  EXPECT_EQ(log(2.0f), static_cast<float>(std::log(2.0)));
  EXPECT_EQ(log(std::numeric_limits<float>::infinity()), static_cast<float>(128 * std::log(2.0)));
}

TEST(SinCosTurns, IsWithinItsErrorAndExactAtTheQuarters) {
  double worst = 0;
  const long double two_pi = 2 * std::acos(-1.0L);
  for (int i = -2000000; i <= 2000000; ++i) {
    const double turns = i * 0.9e-6 + (i % 7) * 16.0;
    const long double angle = (static_cast<long double>(turns) - std::floor(turns)) * two_pi;
    const SinCos got = sincos_turns(turns);
    const double error = std::max(std::fabs(static_cast<double>(got.sin - std::sin(angle))),
                                  std::fabs(static_cast<double>(got.cos - std::cos(angle))));
    worst = std::max(worst, error * 0x1p53);
  }
  EXPECT_LT(worst, 1.5);
  for (int quarter = -8; quarter <= 8; ++quarter) {
    const SinCos got = sincos_turns(quarter * 0.25);
    const int q = quarter & 3;
    EXPECT_EQ(got.sin, q == 1 ? 1.0 : q == 3 ? -1.0 : 0.0);
    EXPECT_EQ(got.cos, q == 0 ? 1.0 : q == 2 ? -1.0 : 0.0);
  }
  EXPECT_TRUE(std::isnan(sincos_turns(std::nan("")).sin));
}

TEST(NormalCdf, IsWithinItsError) {
  double worst_cdf = 0, worst_density = 0, worst_tiny = 0;
  sweep(20.0f, 997, [&](float x) {
    const double cdf = 0.5 * std::erfc(-x * std::sqrt(0.5));
    const double density = std::exp(-0.5 * x * x) / std::sqrt(2 * std::acos(-1.0));
    const NormalCdf got = normal_cdf(x);
    const double normal = std::numeric_limits<float>::min();
    if (cdf >= normal) worst_cdf = std::max(worst_cdf, std::fabs(got.cdf - cdf) / cdf);
    if (density >= normal)
      worst_density = std::max(worst_density, std::fabs(got.density - density) / density);
    if (cdf < normal) worst_tiny = std::max(worst_tiny, std::fabs(got.cdf - cdf));
    if (density < normal) worst_tiny = std::max(worst_tiny, std::fabs(got.density - density));
  });
  EXPECT_LE(worst_tiny, 2 * 0x1p-149);
  EXPECT_LT(worst_cdf, 6 * 0x1p-24);
  EXPECT_LT(worst_density, 4 * 0x1p-24);
}

TEST(NormalCdf, GoesToItsLimits) {
  EXPECT_EQ(normal_cdf(kInf).cdf, 1.0f);
  EXPECT_EQ(normal_cdf(kInf).density, 0.0f);
  EXPECT_EQ(normal_cdf(-kInf).cdf, 0.0f);
  EXPECT_EQ(normal_cdf(0.0f).cdf, 0.5f);
  EXPECT_TRUE(std::isnan(normal_cdf(std::nanf("")).cdf));
  EXPECT_TRUE(std::isnan(normal_cdf(std::nanf("")).density));
}

// Of n draws, mean and variance of N(0, 1) deviate by 1/sqrt(n) and sqrt(2/n), the fourth moment by
// sqrt(96/n): five of those each. Neighbours are uncorrelated.
TEST(Normal, HasTheMomentsOfTheNormalDistribution) {
  const RandomKey key{.seed = 1, .tensor = 3, .step = 0, .purpose = Purpose::init, .micro = 0};
  const int n = 1 << 18;
  double sum = 0, squares = 0, fourths = 0, products = 0, previous = 0;
  for (int e = 0; e < n; ++e) {
    const double z = normal(key, static_cast<uint64_t>(e), 1.0f);
    sum += z;
    squares += z * z;
    fourths += z * z * z * z;
    products += z * previous;
    previous = z;
  }
  const double deviation = 1 / std::sqrt(n);
  EXPECT_LT(std::fabs(sum / n), 5 * deviation);
  EXPECT_LT(std::fabs(squares / n - 1), 5 * std::sqrt(2.0) * deviation);
  EXPECT_LT(std::fabs(fourths / n - 3), 5 * std::sqrt(96.0) * deviation);
  EXPECT_LT(std::fabs(products / n), 5 * deviation);
}

TEST(Normal, IsBoxMullerOnTheFirstTwoWords) {
  const RandomKey key{.seed = 42, .tensor = 7, .step = 0, .purpose = Purpose::init, .micro = 0};
  const long double two_pi = 2 * std::acos(-1.0L);
  for (uint64_t e = 0; e < 1000; ++e) {
    const PhiloxBlock words = draw(key, e / 2);
    const long double radius = std::sqrt(-2 * std::log((words[0] + 0.5L) / 4294967296.0L));
    const long double angle = two_pi * (words[1] / 4294967296.0L);
    const long double want = 0.02f * radius * (e % 2 == 0 ? std::cos(angle) : std::sin(angle));
    EXPECT_LE(std::fabs(normal(key, e, 0.02f) - want), 0x1p-24L * std::fabs(want) + 1e-17L) << e;
  }
}

TEST(Normal, AreTheSameAllAtOnce) {
  const RandomKey key{.seed = 3, .tensor = 2};
  std::vector<float> values(7);
  fill_normal(key, 0.5f, values);
  for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(values[i], normal(key, i, 0.5f)) << i;
}

}  // namespace
}  // namespace ng::math
