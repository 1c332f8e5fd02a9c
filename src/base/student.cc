#include "base/student.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace ng {
namespace {

// Lentz's method. [Numerical Recipes, 3rd edition, 6.4]
double beta_fraction(double a, double b, double x) {
  constexpr double kTiny = 1e-300, kEnough = 1e-15;
  constexpr int kMostTerms = 1000;
  const auto away_from_zero = [](double v) { return std::fabs(v) > kTiny ? v : kTiny; };
  double c = 1, d = 1 / away_from_zero(1 - (a + b) * x / (a + 1)), result = d;
  const auto add = [&](double numerator) {
    d = 1 / away_from_zero(1 + numerator * d);
    c = away_from_zero(1 + numerator / c);
    result *= c * d;
  };
  for (int m = 1; m < kMostTerms; ++m) {
    add(m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)));
    add(-(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)));
    if (std::fabs(c * d - 1) < kEnough) break;
  }
  return result;
}

// The regularized incomplete beta function I_x(a, b).
double incomplete_beta(double a, double b, double x) {
  if (std::isnan(x)) return x;
  if (x <= 0 || x >= 1) return x >= 1 ? 1 : 0;
  if (x > (a + 1) / (a + b + 2)) return 1 - incomplete_beta(b, a, 1 - x);
  const double log =
      std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) + a * std::log(x) + b * std::log1p(-x);
  return std::exp(log) * beta_fraction(a, b, x) / a;
}

}  // namespace

double student_two_sided(double t, double degrees) {
  return incomplete_beta(degrees / 2, 0.5, degrees / (degrees + t * t));
}

double student_quantile(double confidence, double degrees) {
  double low = 0, high = 1e6;
  for (int i = 0; i < 200; ++i) {
    const double middle = (low + high) / 2;
    (1 - student_two_sided(middle, degrees) < confidence ? low : high) = middle;
  }
  return high;
}

double fisher_above(double f, double degrees, double degrees_below) {
  return incomplete_beta(degrees_below / 2, degrees / 2,
                         degrees_below / (degrees_below + degrees * f));
}

std::vector<double> holm(const std::vector<double>& p) {
  std::vector<std::pair<double, size_t>> tested;
  for (size_t i = 0; i < p.size(); ++i)
    if (!std::isnan(p[i])) tested.emplace_back(p[i], i);
  std::sort(tested.begin(), tested.end());
  std::vector<double> corrected = p;
  double largest = 0;
  for (size_t rank = 0; rank < tested.size(); ++rank) {
    const double tests = static_cast<double>(tested.size() - rank);
    largest = std::max(largest, std::min(1.0, tests * tested[rank].first));
    corrected[tested[rank].second] = largest;
  }
  return corrected;
}

}  // namespace ng
