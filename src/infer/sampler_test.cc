#include "infer/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.h"

namespace ng {
namespace {

SamplingSettings settings(double temperature, int64_t top_k = 0, double top_p = 1.0) {
  SamplingSettings s;
  s.temperature = temperature;
  s.top_k = top_k;
  s.top_p = top_p;
  return s;
}

TEST(Sampler, GreedyTakesTheLargestAndOfEqualsTheFirst) {
  EXPECT_EQ(Sampler(settings(0)).pick(std::vector<float>{1, 3, 3, 2}, 0), 1);
}

TEST(Sampler, FrequenciesFollowTheSoftmax) {
  const std::vector<float> logits = {0.0f, std::log(3.0f)};  // 1/4 and 3/4
  Sampler sampler(settings(1));
  int ones = 0;
  for (int64_t position = 0; position < 4000; ++position) ones += sampler.pick(logits, position);
  EXPECT_NEAR(ones, 3000, 4 * std::sqrt(4000 * 0.25 * 0.75));  // four standard deviations
}

TEST(Sampler, TopKAndTopPCutTheTail) {
  const std::vector<float> logits = {2, 1, 0, -1};
  Sampler one(settings(1, 1)), narrow(settings(1, 0, 0.5)), two(settings(5, 2));
  for (int64_t position = 0; position < 200; ++position) {
    EXPECT_EQ(one.pick(logits, position), 0);
    EXPECT_EQ(narrow.pick(logits, position), 0);  // probability 0.64 reaches 0.5 alone
    EXPECT_LE(two.pick(logits, position), 1);
  }
}

TEST(Sampler, IdsBeyondTheVocabularyAreNeverTaken) {
  SamplingSettings two = settings(0);
  two.vocab = 2;
  EXPECT_EQ(Sampler(two).pick(std::vector<float>{1, 2, 9}, 0), 1);
}

TEST(Sampler, NonFiniteLogitsAreNeverTaken) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(Sampler(settings(0)).pick(std::vector<float>{nan, -5, nan}, 0), 1);
  EXPECT_THROW(static_cast<void>(Sampler(settings(0)).pick(std::vector<float>{nan}, 0)), Error);
}

TEST(SamplingSettings, OutOfRangeIsRefused) {
  EXPECT_THROW(validate(settings(-1)), Error);
  EXPECT_THROW(validate(settings(1, -2)), Error);
  EXPECT_THROW(validate(settings(1, 0, 0.0)), Error);
}

}  // namespace
}  // namespace ng
