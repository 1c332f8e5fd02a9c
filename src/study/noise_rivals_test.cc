// The original DiffQ and NIPQ's histogram against the published packages: tests/golden/noise.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "math/weight_noise.h"
#include "study/published_rivals.h"
#include "support/golden_file.h"

namespace ng::study {
namespace {

void expect_near(const std::vector<double>& got, const std::vector<double>& want,
                 double tolerance = 1e-5) {
  ASSERT_EQ(got.size(), want.size());
  double most = 0;
  for (const double x : want) most = std::max(most, std::abs(x));
  ASSERT_GT(most, 0);
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], tolerance * most) << i;
}

/// A case of the file.
struct DiffqCase {
  DiffqCase(const GoldenFile& golden, const std::string& name)
      : n(golden.doubles(name + ".n")),
        rival(golden.floats(name + ".w"), golden.doubles(name + ".logit"),
              golden.cases()[name]["group"]) {}

  std::vector<double> n;
  OriginalDiffq rival;
};

// The package's arithmetic is FP64 where ours is, so the tolerance is tighter than the file's.
TEST(OriginalDiffq, IsThePublishedPackages) {
  const GoldenFile golden("noise/rivals");
  for (const std::string name : {"diffq_g1", "diffq_g8"}) {
    SCOPED_TRACE(name);
    const DiffqCase of(golden, name);
    expect_near(of.rival.bits(), golden.doubles(name + ".bits"), 1e-12);
    expect_near(of.rival.noisy(of.n), golden.doubles(name + ".w_hat"), 1e-12);
  }
}

// The package quantizes in FP32: none of these weights lies that close to a level's edge.
TEST(OriginalDiffq, QuantizesAsThePublishedPackageDoes) {
  const GoldenFile golden("noise/rivals");
  for (const std::string name : {"diffq_g1", "diffq_g8"}) {
    SCOPED_TRACE(name);
    const std::vector<float> want = golden.floats(name + ".w_eval");
    expect_near(DiffqCase(golden, name).rival.evaluated(), {want.begin(), want.end()});
  }
}

TEST(OriginalDiffq, LogitIsTheInverseOfBits) {
  const std::vector<float> w = {-1, 2};
  for (double bits = 2.5; bits < 15; bits += 0.5) {
    const double logit = OriginalDiffq::logit_of(bits);
    EXPECT_NEAR(OriginalDiffq(w, std::span(&logit, 1), 2).bits().front(), bits, 1e-12);
  }
}

// ---------------------------------------------------------------- NIPQ

struct NipqCase {
  NipqCase(const GoldenFile& golden, const std::string& name)
      : w(golden.floats(name + ".w")),
        a(golden.doubles(name + ".a").front()),
        beta(golden.doubles(name + ".beta").front()),
        u(golden.doubles(name + ".u_bit").front()) {}

  std::vector<float> w;
  double a, beta, u;
};

TEST(NipqHistogram, CountsAreThePublishedCodes) {
  const GoldenFile golden("noise/rivals");
  for (const std::string name : {"nipq", "nipq_clip"}) {
    SCOPED_TRACE(name);
    const NipqCase of(golden, name);
    const NoiseProxy proxy(of.a, of.beta, of.u);
    const NipqHistogram histogram(of.w, proxy.alpha, proxy.delta);
    const std::vector<double> want = golden.doubles(name + ".histogram");
    ASSERT_EQ(want.size(), NipqHistogram::kBins);
    for (size_t bin = 0; bin < want.size(); ++bin)
      EXPECT_EQ(static_cast<double>(histogram.counts()[bin]), want[bin]) << bin;
    EXPECT_EQ(static_cast<double>(histogram.total()), std::reduce(want.begin(), want.end()));
  }
}

TEST(NipqHistogram, EvaluationIsThePublishedCodes) {
  const GoldenFile golden("noise/rivals");
  for (const std::string name : {"nipq", "nipq_clip"}) {
    SCOPED_TRACE(name);
    const NipqCase of(golden, name);
    const NoiseProxy proxy(of.a, of.beta, 0);
    std::vector<double> quantized;
    for (const float w : of.w) quantized.push_back(nipq_evaluated(w, proxy.alpha, proxy.delta));
    expect_near(quantized, golden.doubles(name + ".w_eval"), 1e-12);
  }
}

// Errors of two weights, 0 and about 1/4 of a step: draws lie in their bins and nowhere else.
TEST(NipqHistogram, DrawsWhatItCounted) {
  const double delta = 0.25;
  const std::vector<float> w = {0, static_cast<float>(-delta / 4 - delta / 1024)};
  const NipqHistogram histogram(w, 1, delta);
  EXPECT_EQ(histogram.counts()[128], 1);
  EXPECT_EQ(histogram.counts()[192], 1);
  const double bin = 1.0 / NipqHistogram::kBins;
  EXPECT_EQ(histogram.noise(0, 0), 0);
  EXPECT_EQ(histogram.noise(0.49, 0.5), bin / 2);
  EXPECT_EQ(histogram.noise(0.5, 0), 0.25);
  EXPECT_EQ(histogram.noise(0.99, 0.5), 0.25 + bin / 2);
}

TEST(NipqHistogram, CountsNoClippedWeight) {
  const std::vector<float> w = {4, -4, 1, 0.5};  // |w| = α counts as clipped
  EXPECT_EQ(NipqHistogram(w, 1, 0.25).total(), 1);
}

}  // namespace
}  // namespace ng::study
