#include "study/gradient_draws.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

namespace ng::study {
namespace {

using Gradient = std::vector<float>;
constexpr std::array<size_t, 1> kFirst = {0};

TEST(Overlap, HasTheFiguresOfTwoVectors) {
  const Overlap o = overlap(Gradient{6, 0}, Gradient{3, 4});
  EXPECT_EQ(o.projection(), 18.0 / 25);
  EXPECT_EQ(o.cosine(), 18.0 / 30);
  EXPECT_EQ(o.relative_error(), 1);
  EXPECT_NEAR(sqnr(0.1), 20, 1e-12);
  EXPECT_TRUE(std::isnan(sqnr(0)));
}

TEST(Overlap, OfTheExactGradientIsOne) {
  const Gradient r = {0.1F, 0.2F, 0.3F};
  const Overlap o = overlap(r, r);
  EXPECT_EQ(o.projection(), 1);
  EXPECT_EQ(o.cosine(), 1);
  EXPECT_EQ(o.relative_error(), 0);
}

// Two draws to either side of the exact gradient: noise and nothing else.
TEST(GradientDraws, NoiseAveragesAway) {
  GradientDraws draws({3, 4}, {2});
  draws.add(Gradient{4, 4});
  draws.add(Gradient{2, 4});
  EXPECT_EQ(draws.mean(), (Gradient{3, 4}));
  const DrawnErrors e = draws.errors();
  EXPECT_NEAR(e.projection.mean(), 1, 1e-15);
  EXPECT_NEAR(e.projection.error(), 3.0 / 25, 1e-15);
  EXPECT_NEAR(e.error.mean(), 0.2, 1e-15);
  EXPECT_EQ(e.error_of_mean, 0);
  EXPECT_EQ(e.bias, 0);
}

// The same in every draw: all of it stays, and its spread is not known to be anything but 0.
TEST(GradientDraws, BiasStays) {
  GradientDraws draws({3, 4}, {2});
  for (int i = 0; i < 3; ++i) draws.add(Gradient{3, 3});
  const DrawnErrors e = draws.errors();
  EXPECT_TRUE(std::isnan(e.projection.error()));
  EXPECT_NEAR(e.error_of_mean, 0.2, 1e-15);
  EXPECT_NEAR(e.bias, 0.2, 1e-15);
}

// bias² + variance: (1, 0) off in every draw, (0, ±1) drawn; the noise in the mean is taken off.
TEST(GradientDraws, BiasIsFoundBelowNoise) {
  GradientDraws draws({3, 4}, {2});
  draws.add(Gradient{4, 5});
  draws.add(Gradient{4, 5});
  draws.add(Gradient{4, 3});
  draws.add(Gradient{4, 3});
  const DrawnErrors e = draws.errors();
  EXPECT_NEAR(e.error_of_mean, 0.2, 1e-7);
  // (4 · 1/25 - 2/25) / 3: unbiased where the draws are, as these four are not.
  EXPECT_NEAR(e.bias * e.bias, 2.0 / 75, 1e-7);
}

TEST(GradientDraws, LooksAtMatricesApart) {
  GradientDraws draws({3, 4, 5}, {2, 1});
  draws.add(Gradient{3, 4, 0});
  draws.add(Gradient{3, 4, 0});
  EXPECT_EQ(draws.errors(kFirst).projection.mean(), 1);
  EXPECT_EQ(draws.errors().projection.mean(), 0.5);
}

}  // namespace
}  // namespace ng::study
