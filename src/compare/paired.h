// How far losses of several recipes lie from the first one's, seed by seed, and how sure that is.
//
//   y(r, s) = recipe r + seed s + e,  e normal with one deviation: the two-way layout
//   difference of r to the first: the mean of y(r, s) - y(0, s) over the n seeds that both have
//   s^2  = sum of (y(r, s) - mean over s - mean over r + mean over all)^2 / ((R - 1)(S - 1))
//   half = t(0.975; (R - 1)(S - 1)) sqrt(2 s^2 / n)
//
// With two recipes that is the paired t test. Where one recipe scatters unlike the others
// (Cochran's test on the sums of squares above, p < 0.05), s says nothing of it: then each
// difference has the paired t test's own deviation, with n - 1 degrees.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace ng {

/// A mean difference with its 95 % interval, mean ± half.
struct PairedDifference {
  static constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

  int64_t pairs = 0;
  double mean = kNan;  ///< NaN where a value of a pair is
  double sd = kNan;    ///< of the differences themselves; NaN for one pair
  double half = kNan;  ///< NaN where nothing says how wide
  double p = kNan;     ///< that the mean is 0, two-sided
};

/// What the intervals of a table were made of.
struct PairedScatter {
  bool is_pooled = false;
  double sd = PairedDifference::kNan;  ///< pooled, of one difference: sqrt(2) s
  int64_t degrees = 0;
  int64_t unlike = -1;  ///< the recipe that scatters most, where that forbids to pool
};

struct PairedTable {
  std::vector<PairedDifference> differences;  ///< by recipe, the first's 0
  PairedScatter scatter;
};

/// `losses`: a row of each recipe, a column of each seed; NaN: diverged.  Seeds that a recipe has
/// not run are infinite and no pair. One recipe has no differences.
[[nodiscard]] PairedTable paired_table(std::span<const std::vector<double>> losses);

inline constexpr double kNotRun = std::numeric_limits<double>::infinity();

}  // namespace ng
