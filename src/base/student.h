// Student's t and Fisher's F, and several tests at once.
#pragma once

#include <vector>

namespace ng {

/// P(|T| >= |t|) of Student's distribution; NaN of NaN.
[[nodiscard]] double student_two_sided(double t, double degrees);
/// The t for which P(|T| <= t) is `confidence`.
[[nodiscard]] double student_quantile(double confidence, double degrees);
/// P(F >= f) of Fisher's distribution.
[[nodiscard]] double fisher_above(double f, double degrees, double degrees_below);

/// Each p corrected for all of them, in the same order; NaN stays and is no test. [Holm 1979]
[[nodiscard]] std::vector<double> holm(const std::vector<double>& p);

}  // namespace ng
