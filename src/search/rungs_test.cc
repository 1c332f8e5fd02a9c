#include "search/rungs.h"

#include <gtest/gtest.h>

#include <limits>

namespace ng::search {
namespace {

using Rungs = std::vector<Rung>;

TEST(Rungs, HalveCandidatesAndDoubleSeedsWhereStepsStay) {
  EXPECT_EQ(rungs_of({.candidates = 8, .first_steps = 400, .steps = 400, .seeds = 2}),
            (Rungs{{8, 400, 2}, {4, 400, 4}, {2, 400, 8}}));
}

TEST(Rungs, DoubleStepsUpToTheLast) {
  EXPECT_EQ(rungs_of({.candidates = 7, .first_steps = 1, .steps = 400, .seeds = 3}),
            (Rungs{{7, 100, 3}, {4, 200, 3}, {2, 400, 3}}));
}

TEST(Rungs, BeginWithTheFirstStepsAtLeast) {
  EXPECT_EQ(rungs_of({.candidates = 8, .first_steps = 300, .steps = 400, .seeds = 2}),
            (Rungs{{8, 300, 2}, {4, 300, 4}, {2, 400, 4}}));
}

TEST(Rungs, OfOneOrTwoIsOne) {
  EXPECT_EQ(rungs_of({.candidates = 1, .first_steps = 5, .steps = 5, .seeds = 2}),
            (Rungs{{1, 5, 2}}));
  EXPECT_EQ(rungs_of({.candidates = 2, .first_steps = 1, .steps = 5, .seeds = 2}),
            (Rungs{{2, 5, 2}}));
  EXPECT_EQ(rungs_of({.candidates = 3, .first_steps = 5, .steps = 5, .seeds = 2}),
            (Rungs{{3, 5, 2}, {2, 5, 4}}));
}

TEST(Kept, AreTheSmallestLossesWithoutWhatDiverged) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> losses = {1.5, kNan, 1.2, 1.9, 1.3};
  EXPECT_EQ(kept_of(losses, 3), (std::vector<size_t>{2, 4, 0}));
  EXPECT_EQ(kept_of(losses, 9), (std::vector<size_t>{2, 4, 0, 3}));
  EXPECT_TRUE(kept_of(std::vector<double>{kNan, kNan}, 1).empty());
}

}  // namespace
}  // namespace ng::search
