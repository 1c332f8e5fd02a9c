// The loss of pairs against its definition in decimals of 60 digits (tests/golden/dpo), whose
// gradients are differences of losses.
#include "backend/host_preference.h"

#include <gtest/gtest.h>

#include <cmath>

#include "format/table.h"
#include "support/golden_file.h"

namespace ng {
namespace {

ConstView row(const std::vector<float>& values) {
  const auto cols = static_cast<int64_t>(values.size());
  return {values.data(), 1, cols, cols};
}

// Rewards are differences of sums of up to 7 numbers below 300: each rounding in FP64 is one of
// 2^-53 · 2100, there are at most 20, and β of at most 2 and the loss's slope of 1 enlarge them.
constexpr double kTolerance = 20 * 2 * 2100 * 0x1p-53;

TEST(HostPreference, IsTheLossOfTheDefinition) {
  const GoldenFile golden("dpo/pairs");
  int64_t seen = 0;
  for (const auto& [name, of] : golden.cases().items()) {
    SCOPED_TRACE(name);
    const auto losses = golden.floats(name + ".losses"), mask = golden.floats(name + ".mask"),
               reference = golden.floats(name + ".reference");
    std::vector<float> weights(losses.size(), -1.0f);
    PreferenceSums sums;
    double loss = 0;
    PreferenceLoss op{.losses = row(losses),
                      .reference = row(reference),
                      .mask = row(mask),
                      .length = of["length"],
                      .beta = of["beta"],
                      .label_smoothing = of["label_smoothing"],
                      .loss = &loss,
                      .sums = &sums};
    op.weights = {weights.data(), 1, std::ssize(weights), std::ssize(weights)};
    preference_loss_on_host(op);
    EXPECT_EQ(loss, sums.loss);
    const std::vector<double> want = golden.doubles(name + ".sums");
    const double have[] = {sums.pairs,    sums.loss,          sums.chosen,
                           sums.rejected, sums.chosen_reward, sums.rejected_reward,
                           sums.accurate};
    for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(have[i], want[i], kTolerance) << i;
    const std::vector<double> slopes = golden.doubles(name + ".weights");
    for (size_t t = 0; t < slopes.size(); ++t)  // rounded to FP32
      EXPECT_NEAR(weights[t], slopes[t], std::abs(slopes[t]) * 0x1p-24 + kTolerance) << t;
    seen += std::ssize(weights);
  }
  EXPECT_EQ(seen, 60 + 70 + 8);
}

TEST(HostPreference, AddsToWhatIsThereAndKeepsNaN) {
  const std::vector<float> mask = {1, 1}, losses = {1, 3}, nan = {NAN, 3}, reference = {2, 2};
  PreferenceSums sums;
  double loss = 0;
  PreferenceLoss op{.losses = row(losses),
                    .reference = row(reference),
                    .mask = row(mask),
                    .length = 1,
                    .beta = 1,
                    .loss = &loss,
                    .sums = &sums};
  preference_loss_on_host(op);
  const double one = std::log1p(std::exp(-2.0));  // z = (-1 + 2) - (-3 + 2)
  EXPECT_NEAR(loss, one, 1e-15);
  preference_loss_on_host(op);
  EXPECT_NEAR(loss, 2 * one, 1e-15);
  EXPECT_EQ(sums.pairs, 2);
  EXPECT_EQ(sums.accurate, 2);
  op.losses = row(nan);
  preference_loss_on_host(op);
  EXPECT_TRUE(std::isnan(loss)) << "so that the step is skipped";
}

}  // namespace
}  // namespace ng
