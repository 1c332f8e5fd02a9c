// Which ranks can share the micro-batches of a step.
#include "train/global_batch.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace ng {
namespace {

TEST(MostRanks, DivideTheMicroBatches) {
  EXPECT_EQ(most_ranks(12, 12), 12);
  EXPECT_EQ(most_ranks(12, 11), 6);
  EXPECT_EQ(most_ranks(12, 5), 4);
  EXPECT_EQ(most_ranks(7, 6), 1);
  EXPECT_EQ(most_ranks(3, 1000), 3) << "each has at least one";
  EXPECT_EQ(most_ranks(int64_t{1} << 40, 1000), 512);
}

std::string refusal(int64_t micros, int ranks) {
  try {
    require_shared_equally(micros, ranks, "runs/x/checkpoints");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(SharedEqually, NamesTheRanksThatCan) {
  for (const int ranks : {1, 2, 3, 4, 6, 12}) EXPECT_EQ(refusal(12, ranks), "") << ranks;
  EXPECT_EQ(refusal(12, 5),
            "runs/x/checkpoints: a step has 12 micro-batches, which 5 ranks cannot share equally: "
            "1, 2, 3, 4 or 6 ranks");
  EXPECT_EQ(refusal(7, 2),
            "runs/x/checkpoints: a step has 7 micro-batches, which 2 ranks cannot share equally: "
            "1 rank");
}

}  // namespace
}  // namespace ng
