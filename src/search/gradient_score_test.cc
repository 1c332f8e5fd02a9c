#include "search/gradient_score.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace ng::search {
namespace {

using Order = std::vector<size_t>;

TEST(GradientScore, NoiseAveragesInTheMomentAndBiasStays) {
  const GradientScore score{.bias = 0.3, .noise = 0.4};
  EXPECT_DOUBLE_EQ(score.moment_error(0), 0.5);
  EXPECT_DOUBLE_EQ(score.moment_error(0.9), std::sqrt(0.09 + 0.16 * (1 - 0.9) / (1 + 0.9)));
}

TEST(GradientScore, BiasAndNoiseAreTheSquaredErrorTogether) {
  study::GradientErrors errors;
  for (const double error : {0.5, 0.7}) errors.all.error.add(error);
  errors.all.bias = 0.2;
  for (const double loss : {0.01, 0.03}) errors.loss.add(loss);
  const GradientScore score = score_of(errors);
  EXPECT_DOUBLE_EQ(score.bias * score.bias + score.noise * score.noise, (0.25 + 0.49) / 2);
  EXPECT_DOUBLE_EQ(score.loss, 0.02);
}

// DrawnErrors::bias of errors that are not numbers is 0.
TEST(GradientScore, OfAGradientThatIsNotFiniteHasNoBias) {
  study::GradientErrors errors;
  errors.all.error.add(std::numeric_limits<double>::quiet_NaN());
  errors.loss.add(0);
  EXPECT_TRUE(std::isnan(score_of(errors).bias));
}

// The first as nvfp4-sr-forward in docs/results/gradients.md: the best gradient, of the worst
// function.
TEST(InOrder, TakesTheWorseOfTwoRanks) {
  const std::vector<GradientScore> scores = {{.bias = 0.2, .noise = 0, .loss = 0.031},
                                             {.bias = 0.4, .noise = 0, .loss = 0.018},
                                             {.bias = 0.3, .noise = 0, .loss = -0.020},
                                             {.bias = 0.9, .noise = 0, .loss = 0.025}};
  EXPECT_EQ(in_order(scores, 0.9), (Order{2, 1, 0, 3}));
}

TEST(InOrder, OfOneForwardPassGoesByTheGradient) {
  const std::vector<GradientScore> scores = {{.bias = 0.3, .noise = 0, .loss = 0.01},
                                             {.bias = 0.1, .noise = 0, .loss = 0.01},
                                             {.bias = 0.2, .noise = 0, .loss = 0.01}};
  EXPECT_EQ(in_order(scores, 0.9), (Order{1, 2, 0}));
}

TEST(InOrder, WhatIsNotFiniteIsLast) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<GradientScore> scores = {{.bias = kNan, .noise = kNan, .loss = 0},
                                             {.bias = 0.1, .noise = 0, .loss = kNan},
                                             {.bias = 0.9, .noise = 0, .loss = 1}};
  EXPECT_EQ(in_order(scores, 0.9).front(), 2u);
}

}  // namespace
}  // namespace ng::search
