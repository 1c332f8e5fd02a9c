// The variance of stochastic rounding by element. [source 003: why outliers in a block give
// stochastic rounding a high variance; Tseng et al. 2025, "Training LLMs with MXFP4", §3.2]
//
// Between two numbers of E2M1 a gap apart, times the scale s and divided by the prescale of 3/4, a
// value's variance is at most (s·gap / 2 / ¾)². The widest gap is 2 and s = 2^(⌊log2 amax⌋ - 2) at
// most amax / 4, so no element's exceeds amax² / 9. A transform makes of a group of g values x
// others, each a sum of ±x_i / √g with signs at random: with probability 1 - ε none of them exceeds
// |x|·√(2 ln(2g/ε) / g) (Hoeffding), and no variance 2 ln(2g/ε)·|x|² / 9g.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "format/codec.h"
#include "numbers/narrow_matrix.h"
#include "study/hadamard_sections.h"
#include "study/mean.h"
#include "study/rounding_laws.h"
#include "study/written.h"

namespace ng::study {
namespace {

constexpr int kBlock = 32;
constexpr double kEpsilon = 0.05;

/// Groups of g values before the transform; g = 0: none, blocks as they are.
struct VarianceCase {
  std::string name;
  bool outliers = false;
  int g = 0;
};

std::vector<VarianceCase> variance_cases() {
  std::vector<VarianceCase> cases;
  for (const bool outliers : {false, true}) {
    const char* data = outliers ? "with outliers" : "N(0,1)";
    cases.push_back({data, outliers, 0});
    for (const int g : kHadamardSizes)
      if (g >= kBlock) cases.push_back({fmt::format("{}, g = {}", data, g), outliers, g});
  }
  return cases;
}

Operand stochastic_cast() {
  Operand cast = operand_of("mxfp4").rounded_by(Rounding::stochastic);
  cast.prescale = 0.75f;
  return cast;
}

/// The variances that rounding each value has, exactly.
struct Law {
  double mean = 0;     ///< of all values
  double largest = 0;  ///< of a group, mean over the groups
};
Law law_of(const HadamardMatrix& z, const NarrowMatrix& narrow, const Operand& cast, int group) {
  const FloatGrid e2m1 = grid_of(*cast.element);
  double sum = 0, largest = 0, largest_sum = 0;
  for (size_t i = 0; i < z.values.size(); ++i) {
    const double s = static_cast<double>(narrow.scales[i / kBlock]);
    const auto y = static_cast<float>(std::abs(z.values[i]) * cast.prescale / s);
    const Chance chance = stochastic_chance(e2m1, y, cast.sr_bits);
    const double step = (chance.high - chance.low) * s / cast.prescale;
    const double variance = chance.up * (1 - chance.up) * step * step;
    sum += variance;
    largest = std::max(largest, variance);
    if ((i + 1) % static_cast<size_t>(group) != 0) continue;
    largest_sum += largest;
    largest = 0;
  }
  const auto count = static_cast<double>(z.values.size());
  return {.mean = sum / count, .largest = largest_sum / (count / group)};
}

/// Mean over blocks of amax² / 9.
double largest_bound(const HadamardMatrix& z) {
  double sum = 0;
  for (size_t begin = 0; begin < z.values.size(); begin += kBlock) {
    float amax = 0;
    for (size_t i = begin; i < begin + kBlock; ++i) amax = std::max(amax, std::abs(z.values[i]));
    sum += static_cast<double>(amax) * amax / 9;
  }
  return sum / (static_cast<double>(z.values.size()) / kBlock);
}

/// What is found for one case: columns of the table.
struct Variances {
  double all = 0;      ///< mean squared error of a draw
  double law = 0;      ///< the same over all draws
  double largest = 0;  ///< of a block or group, on average over them
  double bound = 0;    ///< of that
  double rest = 0;     ///< of values that are no outliers, transformed back
};

Variances variances_of(const VarianceCase& v, const Settings& settings) {
  const HadamardMatrix x = v.outliers ? one_in_a_group(settings, kBlock) : normal_matrix(settings);
  const HadamardMatrix z = transformed(x, v.g, settings);
  const Operand cast = stochastic_cast();
  const RandomKey key{.seed = settings.seed, .purpose = Purpose::wgrad_grad};
  const NarrowMatrix narrow = quantize(z.view(), cast, {.key = key}, settings.threads);
  HadamardMatrix error = {dequantize(narrow, settings.threads)};
  for (size_t i = 0; i < z.values.size(); ++i)
    error.values[i] = error.values[i] / cast.prescale - z.values[i];
  // A transform of 32 or 128 makes values √2 times as large as their group's length says.
  const double energy = root_mean_square(x.values) * root_mean_square(x.values);
  const double grown = root_mean_square(z.values) * root_mean_square(z.values) / energy;

  Variances found;
  found.all = root_mean_square(error.values) * root_mean_square(error.values) / grown / energy;
  const Law law = law_of(z, narrow, cast, v.g == 0 ? kBlock : v.g);
  found.law = law.mean / grown / energy;
  found.largest = law.largest / grown / energy;
  found.bound = v.g == 0 ? largest_bound(x) / energy : 2 * std::log(2 * v.g / kEpsilon) / 9;

  if (v.g != 0) {
    const SignBits signs = hadamard_study_signs(settings);
    for (size_t begin = 0; begin < x.values.size(); begin += static_cast<size_t>(v.g))
      hadamard_back(error.values.data() + begin, v.g, signs.data());
  }
  const std::vector<int> places = outlier_places(settings, kBlock);
  double errors = 0, squares = 0;
  for (size_t i = 0; i < x.values.size(); ++i) {
    if (static_cast<int>(i % kBlock) == places[i / kBlock]) continue;
    errors += static_cast<double>(error.values[i]) * error.values[i];
    squares += static_cast<double>(x.values[i]) * x.values[i];
  }
  found.rest = errors / squares;
  return found;
}

}  // namespace

Section hadamard_variance_section(const Settings& settings, Progress& progress) {
  const std::vector<VarianceCase> cases = variance_cases();
  Grid grid("variance",
            "Variance of an element rounded stochastically to MXFP4, times 3/4 before, in units of "
            "the mean square of all; of the others: of theirs",
            "data, transform", names_of(cases),
            {"variance", "largest", "bound", "of all but the outlier"}, {.expected_is = "exact"});
  for (size_t r = 0; r < cases.size(); ++r) {
    const Variances found = variances_of(cases[r], settings);
    grid.at(r, 0) = {.found = found.all, .expected = found.law};
    grid.at(r, 1).found = found.largest;
    grid.at(r, 2).found = found.bound;
    grid.at(r, 3).found = found.rest;
  }
  progress.step();
  Section section = section_of("hadamard", "variance", {grid});
  section.charts = {bars_of(grid, "variance / mean square")};
  return section;
}

}  // namespace ng::study
