#include "study/samples.h"

#include <gtest/gtest.h>

#include <cmath>

#include "study/mean.h"

namespace ng::study {
namespace {

constexpr int64_t kCount = 1 << 18;

struct Moments {
  Mean first, second, fourth;
};
Moments moments_of(Distribution distribution) {
  Moments m;
  for (const float x : samples(distribution, stream(5, 1), kCount, {})) {
    m.first.add(x);
    m.second.add(static_cast<double>(x) * x);
    m.fourth.add(std::pow(x, 4));
  }
  return m;
}

// Within five standard errors: missed once in two million.
void expect_near(const Mean& mean, double expected) {
  EXPECT_NEAR(mean.mean(), expected, 5 * mean.error());
}

TEST(Samples, HaveTheMomentsOfTheirDistributions) {
  const struct {
    Distribution distribution;
    double fourth;
  } kCases[] = {
      {Distribution::normal, 3}, {Distribution::laplace, 6}, {Distribution::uniform, 1.8}};
  for (const auto& [distribution, fourth] : kCases) {
    SCOPED_TRACE(name_of(distribution));
    const Moments m = moments_of(distribution);
    expect_near(m.first, 0);
    expect_near(m.second, 1);
    expect_near(m.fourth, fourth);
  }
}

TEST(Samples, DependOnSeedStreamAndPlaceAlone) {
  for (const Distribution distribution :
       {Distribution::normal, Distribution::laplace, Distribution::uniform}) {
    const std::vector<float> all = samples(distribution, stream(5, 1), 70001, {3});
    EXPECT_EQ(samples(distribution, stream(5, 1), 70001, {1}), all);
    const std::vector<float> first(all.begin(), all.begin() + 1001);
    EXPECT_EQ(samples(distribution, stream(5, 1), 1001, {1}), first);
    EXPECT_NE(samples(distribution, stream(6, 1), 1001, {1}), first);
    EXPECT_NE(samples(distribution, stream(5, 2), 1001, {1}), first);
  }
}

TEST(Samples, PhasesMultiplyWholeBlocks) {
  std::vector<float> x(96, 3.0f);
  const std::vector<float> factors = spread_phases(x, 32, stream(5, 1), {});
  ASSERT_EQ(factors.size(), 3u);
  EXPECT_NE(factors[0], factors[1]);
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_EQ(x[i], 3.0f * factors[i / 32]);
    EXPECT_GE(factors[i / 32], 1.0f);
    EXPECT_LE(factors[i / 32], 2.0f);
  }
}

TEST(GeneratedText, IsWordsWithFrequenciesThatFall) {
  const std::vector<int32_t> text = generated_text(stream(5, 1), 100000);
  ASSERT_EQ(text.size(), 100000u);
  std::vector<int> counts(kTextVocabulary);
  for (const int32_t token : text) {
    ASSERT_GE(token, 0);
    ASSERT_LT(token, kTextVocabulary);
    ++counts[static_cast<size_t>(token)];
  }
  EXPECT_GT(counts[0], 10000);       // a space behind each word
  EXPECT_GT(counts[1], counts[26]);  // letters have ranks
  EXPECT_EQ(counts[29] + counts[30] + counts[31], 0);
  EXPECT_EQ(generated_text(stream(5, 1), 100),
            std::vector<int32_t>(text.begin(), text.begin() + 100));
}

}  // namespace
}  // namespace ng::study
