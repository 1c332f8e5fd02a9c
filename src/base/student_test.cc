// Against scipy.stats 1.17.1 (t.sf, t.ppf, f.sf), computed once.
#include "base/student.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace ng {
namespace {

void expect_close(double have, double want) { EXPECT_NEAR(have, want, 1e-11 * std::fabs(want)); }

TEST(Student, TailsAreThoseOfScipy) {
  expect_close(student_two_sided(2.5, 1), 0.24223788318168682);
  expect_close(student_two_sided(-0.3, 4), 0.7791214282774598);
  expect_close(student_two_sided(6, 2.5), 0.015281729885522899);
  expect_close(student_two_sided(12, 30), 5.580185415199261e-13);
  expect_close(student_two_sided(1e-3, 7), 0.9992300172449988);
  EXPECT_EQ(student_two_sided(0, 3), 1);
  EXPECT_TRUE(std::isnan(student_two_sided(std::numeric_limits<double>::quiet_NaN(), 3)));
}

TEST(Student, QuantilesAreThoseOfScipy) {
  expect_close(student_quantile(0.95, 1), 12.706204736174694);
  expect_close(student_quantile(0.95, 2), 4.302652729749462);
  expect_close(student_quantile(0.95, 7), 2.364624251592784);
  expect_close(student_quantile(0.99, 30), 2.7499956535672254);
  expect_close(student_quantile(0.95, 200), 1.9718962236339088);
}

TEST(Fisher, TailsAreThoseOfScipy) {
  expect_close(fisher_above(3, 2, 4), 0.16);
  expect_close(fisher_above(0.5, 1, 9), 0.49739902448860757);
  expect_close(fisher_above(20, 3, 6), 0.0015864134026714579);
}

TEST(Holm, CorrectsByRankAndLeavesOutWhatIsNoTest) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> corrected = holm({0.01, 0.04, nan, 0.03});
  EXPECT_DOUBLE_EQ(corrected[0], 0.03);
  EXPECT_DOUBLE_EQ(corrected[1], 0.06) << "not below that of a smaller p";
  EXPECT_TRUE(std::isnan(corrected[2]));
  EXPECT_DOUBLE_EQ(corrected[3], 0.06);
  EXPECT_EQ(holm({0.9, 0.8})[1], 1) << "at most 1";
}

}  // namespace
}  // namespace ng
