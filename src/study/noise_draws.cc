// Section of study noise: probabilities of R. [source 002, Eq. 10; recipes.md §1.1]
#include <array>
#include <cmath>

#include "math/weight_noise.h"
#include "study/noise_sections.h"
#include "study/noise_weights.h"

namespace ng::study {
namespace {

constexpr int64_t kNoiseDraws = int64_t{1} << 25;  // 33.5 million, as the specification's figures
constexpr int64_t kLeastDraws = int64_t{1} << 15;
constexpr int64_t kChunk = int64_t{1} << 15;  // a multiple of the eight of a draw
constexpr int kDecidingBits = 16;             // of an element: a nibble of each of four words
constexpr uint32_t kNoiseTensor = 1;

/// Of R = -2, -1, 0, 1, 2.
using Probabilities = std::array<double, 5>;
constexpr size_t kZero = 2;

double variance_of(const Probabilities& p) {
  double sum = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    const double r = static_cast<double>(i) - kZero;
    sum += p[i] * r * r;
  }
  return sum;
}

Probabilities symmetric(double one, double two) {
  return {two, one, 1 - 2 * one - 2 * two, one, two};
}

Probabilities equation_10() { return symmetric(kPrOne / 2, kPrTwo / 2); }

/// round(N(0,1)/2); what lies beyond ±2, 6e-7 of all, counts as ±2.
Probabilities rounded_normal() {
  const auto beyond = [](double x) { return std::erfc(x / std::sqrt(2.0)) / 2; };
  return symmetric(beyond(1) - beyond(3), beyond(3));
}

size_t place_of(uint32_t nibble) {
  return static_cast<size_t>(rounded_normal_of(nibble) + static_cast<float>(kZero));
}

/// The recipe over every value that the bits deciding an element take.
Probabilities enumerated() {
  Probabilities p{};
  for (uint32_t bits = 0; bits < (1u << kDecidingBits); ++bits) {
    const PhiloxBlock block = {bits & 15u, (bits >> 4) & 15u, (bits >> 8) & 15u, bits >> 12};
    p[place_of(rounded_normals(block) & 15u)] += 1;
  }
  for (double& each : p) each /= 1u << kDecidingBits;
  return p;
}

using Counts = std::array<int64_t, 5>;

/// Of elements 0 ... count - 1 of a tensor; count is a multiple of kChunk.
Counts counted(uint64_t seed, int64_t count, Threads threads) {
  std::vector<Counts> parts(static_cast<size_t>(count / kChunk));
  parallel_for(threads, std::ssize(parts), [&](int64_t part, int) {
    const std::vector<float> r = drawn_noise(
        NoiseLaw::rounded_normal, noise_stream(seed, kNoiseTensor), kChunk, {}, part * kChunk);
    for (const float value : r)
      ++parts[static_cast<size_t>(part)][static_cast<size_t>(value + static_cast<float>(kZero))];
  });
  Counts all{};
  for (const Counts& part : parts)
    for (size_t i = 0; i < all.size(); ++i) all[i] += part[i];
  return all;
}

/// Σ (found - expected)²/expected, of four degrees of freedom.
double chi_square(const Counts& counts, const Probabilities& p, double total) {
  double sum = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    const double expected = p[i] * total;
    sum += (static_cast<double>(counts[i]) - expected) *
           (static_cast<double>(counts[i]) - expected) / expected;
  }
  return sum;
}

constexpr const char* kAllCases = "all cases of the bits";
const Names kDrawRows = {"-2", "-1", "0", "1", "2", "variance"};

Grid probability_grid(const Probabilities& cases, const Counts& counts, double total) {
  Grid grid("probability", "Probability of each R, and the variance of R", "R", kDrawRows,
            {kAllCases, "draws"}, {.expected_is = "Eq. 10", .digits = 5});
  const Probabilities exact = equation_10();
  Probabilities drawn{};
  for (size_t i = 0; i < exact.size(); ++i) {
    drawn[i] = static_cast<double>(counts[i]) / total;
    grid.at(i, 0) = {.found = cases[i], .expected = exact[i]};
    grid.at(i, 1) = {.found = drawn[i],
                     .error = std::sqrt(exact[i] * (1 - exact[i]) / total),
                     .expected = exact[i]};
  }
  const double variance = variance_of(exact);
  double fourth = 0;  // of R, for the variance of R²
  for (size_t i = 0; i < exact.size(); ++i)
    fourth += exact[i] * std::pow(static_cast<double>(i) - kZero, 4);
  grid.at(exact.size(), 0) = {.found = variance_of(cases), .expected = variance};
  grid.at(exact.size(), 1) = {.found = variance_of(drawn),
                              .error = std::sqrt((fourth - variance * variance) / total),
                              .expected = variance};
  return grid;
}

/// What is approximated, with the specification's figures.
Grid rounded_normal_grid() {
  constexpr double kSpecified[] = {1 / 741.0, 1 / 6.357, .68269, 1 / 6.357, 1 / 741.0, .3254};
  const Probabilities exact = rounded_normal();
  return Grid("rounded_normal", "The same of round(N(0,1)/2), which the bits approximate", "R",
              kDrawRows, {"round(N(0,1)/2)"}, {.digits = 5})
      .filled([&](size_t r, size_t) {
        return Value{.found = r < exact.size() ? exact[r] : variance_of(exact),
                     .expected = kSpecified[r]};
      });
}

}  // namespace

Section noise_draws_section(const Settings& settings, Progress& progress) {
  const int64_t draws = settings.part_of(kNoiseDraws, kLeastDraws) / kChunk * kChunk;
  const auto total = static_cast<double>(draws);
  const Counts counts = counted(settings.seed, draws, settings.threads);
  const Grid found = probability_grid(enumerated(), counts, total);
  const Grid normal = rounded_normal_grid();
  const Grid chi =
      Grid("chi_square", "χ² of the draws against Eq. 10; its mean is 4, 18.5 in one of 1,000",
           "draws", {"χ²"}, {"R"}, {.digits = 3})
          .filled([&](size_t, size_t) { return chi_square(counts, equation_10(), total); });
  progress.step();
  return section_of("noise", "draws", {found, normal, chi},
                    {{"one", 2 * found.found("1", kAllCases)},
                     {"two", 2 * found.found("2", kAllCases)},
                     {"draws", draws},
                     {"weaker", 100 * (1 - std::sqrt(found.found("variance", kAllCases) /
                                                     normal.values.back().found))}});
}

}  // namespace ng::study
