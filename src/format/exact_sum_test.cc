#include "format/exact_sum.h"

#include <gtest/gtest.h>

#include <cmath>

namespace ng {
namespace {

// distributed.md §1: E4M3 is exact in FP32 up to 73 ranks. 2^53 / 229,376 and 2^53 / (57,344·2^16).
TEST(ExactRanks, AreThoseOfTheSignificands) {
  const ExactRanks e4m3 = exact_ranks(element_format("e4m3"));
  EXPECT_EQ(e4m3.units, 229376);
  EXPECT_EQ(e4m3.in_fp32, 73);
  EXPECT_EQ(e4m3.in_fp64, 39268272420);
  const ExactRanks e5m2 = exact_ranks(element_format("e5m2"));
  EXPECT_EQ(e5m2.in_fp32, 0);
  EXPECT_EQ(e5m2.in_fp64, 2396745);
  EXPECT_EQ(exact_ranks(bf16_format()).in_fp64, 0) << "its exponents are too many for one unit";
}

// One rank has the smallest value with all bits, the others the largest of the largest exponent.
TEST(ExactExponents, AreTheMostWhoseSumsFp64Holds) {
  struct Case {
    int bits;
    int64_t ranks;
  };
  for (const Case& c : {Case{24, 2}, Case{24, 3}, Case{24, 4}, Case{8, 1024}, Case{4, 1000}}) {
    const int apart = exact_exponents(c.bits, c.ranks);
    const int64_t odd = (int64_t{1} << (c.bits - 1)) + 1, largest = (int64_t{1} << c.bits) - 1;
    double sum = static_cast<double>(odd);
    int64_t want = odd;
    for (int64_t rank = 1; rank < c.ranks; ++rank) {
      sum += std::ldexp(static_cast<double>(largest), apart);
      want += largest << apart;
    }
    EXPECT_EQ(static_cast<int64_t>(sum), want) << c.bits << " bits of " << c.ranks << " ranks";
    EXPECT_EQ(sum, static_cast<double>(want));
  }
  // Of 24 bits and four ranks 27 apart: with 28 the odd unit is lost.
  EXPECT_EQ(exact_exponents(24, 4), 27);
  const double largest = std::ldexp(0x1p24 - 1, 28);
  EXPECT_EQ(3 * largest + 1, 3 * largest);
}

}  // namespace
}  // namespace ng
