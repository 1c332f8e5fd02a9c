// Section of study noise: which weights noise takes away. [source 002, Lemma 2, Proposition 4]
#include <algorithm>
#include <cmath>

#include "math/weight_noise.h"
#include "study/noise_sections.h"
#include "study/noise_weights.h"
#include "study/samples.h"

namespace ng::study {
namespace {

constexpr uint32_t kLemmaStream = 520, kAnnealingStream = 560;

double percent(int64_t count, int64_t all) {
  return 100 * static_cast<double>(count) / static_cast<double>(all);
}

/// A block's maximum anywhere in [1, 2), and a sign.
struct Place {
  float amax;
  float sign;

  explicit Place(const PhiloxBlock& words)
      : amax(1 + static_cast<float>(words[0] >> 9) * 0x1p-23f),
        sign((words[1] & 1u) != 0 ? -1.0f : 1.0f) {}
};

// ---------------------------------------------------------------- Lemma 2

constexpr int64_t kTries = int64_t{1} << 18;
constexpr int64_t kLeastTries = int64_t{1} << 12;
constexpr float kLemmaBits = 6;
constexpr int kLowestOffset = -6, kHighestOffset = 6;

/// A magnitude of R, and the τ of the law that has it.
struct Drawn {
  float r;
  int tau;
  const char* name;
};
constexpr Drawn kDrawn[] = {
    {1, kRoundedNormalTau, "normal, ±1"},        {2, kRoundedNormalTau, "normal, ±2"},
    {1 / 16.0f, kUniform4Tau, "uniform, ±1/16"}, {2 / 16.0f, kUniform4Tau, "uniform, ±2/16"},
    {4 / 16.0f, kUniform4Tau, "uniform, ±4/16"}, {7 / 16.0f, kUniform4Tau, "uniform, ±7/16"}};

/// Percent of w = ±2^ξ, ξ that far above the lemma's bound, that BF16 still shows beside R·s.
double surviving(const Drawn& drawn, int offset, const Settings& settings) {
  const int64_t tries = settings.part_of(kTries, kLeastTries);
  const FloatGrid cast = wide_grid(kBf16Mantissa);
  const auto column = static_cast<uint32_t>(&drawn - kDrawn);
  const RandomKey key = stream(settings.seed, kLemmaStream + column);
  const int64_t shown = parallel_count(settings.threads, tries, [&](int64_t i) {
    const Place place(draw(key, static_cast<uint64_t>(i)));
    const double bound = vanishes_up_to(place.amax, kLemmaBits, kBf16Mantissa, drawn.tau);
    const float w = place.sign * pow2(static_cast<int>(bound) + offset);
    const float noise = drawn.r * noise_scale(place.amax, kLemmaBits);
    return int64_t{rounded(cast, w + noise) != rounded(cast, noise)};
  });
  return percent(shown, tries);
}

Grid surviving_grid(const Settings& settings) {
  const std::vector<int> offsets = integers(kLowestOffset, kHighestOffset);
  return Grid("surviving",
              "Weights ±2^ξ that BF16 shows beside noise, percent; 6 bits, R by its law and "
              "magnitude",
              "ξ - bound", texts_of(offsets, "{:+d}"), names_of(kDrawn), {.expected_is = "Lemma 2"})
      .filled([&](size_t r, size_t c) {
        return Value{.found = surviving(kDrawn[c], offsets[r], settings),
                     .expected = offsets[r] > 0 ? 100 : kNone};
      });
}

/// The least ξ - bound from which on all weights survive.
int all_survive_from(const Grid& grid, size_t column) {
  size_t row = grid.rows.size();
  while (row > 0 && grid.at(row - 1, column).found == 100) --row;
  return kLowestOffset + static_cast<int>(row);
}

// ---------------------------------------------------------------- Proposition 4

constexpr int64_t kAnnealed = int64_t{1} << 17;
constexpr int64_t kLeastAnnealed = int64_t{1} << 12;
constexpr int kSmallestSurviving = 20;  // binades below the block's maximum

struct Annealing {
  const char* name;
  float b_t;
  int mantissa;
};
constexpr Annealing kAnnealings[] = {{"6 bits, BF16", 6, kBf16Mantissa},
                                     {"4 bits, 2 bits of mantissa", 4, 2}};

struct Annealed {
  int64_t tried = 0, kept = 0, masked = 0;
};

/// Weights of magnitude 2^-below of the block's maximum's binade, with any mantissa.
Annealed annealed(const Annealing& of, int below, const Settings& settings) {
  const int64_t tries = settings.part_of(kAnnealed, kLeastAnnealed);
  const FloatGrid cast = wide_grid(of.mantissa);
  const auto number = static_cast<uint32_t>((&of - kAnnealings) * (kSmallestSurviving + 1) + below);
  const RandomKey key = stream(settings.seed, kAnnealingStream + number);
  struct Fate {
    bool kept, masked;
  };
  const auto fate_of = [&](int64_t i) -> Fate {
    const PhiloxBlock words = draw(key, static_cast<uint64_t>(i));
    const Place place(words);
    const float w = place.sign * pow2(-below) * (1 + static_cast<float>(words[1] >> 9) * 0x1p-23f);
    const float r = rounded_normal_of(rounded_normals(draw(key, static_cast<uint64_t>(i), 0x80)));
    const float noise = r * noise_scale(place.amax, of.b_t);
    const float seen = rounded(cast, w + noise);
    const double error = static_cast<double>(seen) - (static_cast<double>(w) + noise);
    return {.kept = std::fabs(error) <= std::ldexp(0.5, -below - of.mantissa),
            .masked = seen == rounded(cast, noise)};
  };
  return {.tried = tries,
          .kept = parallel_count(settings.threads, tries,
                                 [&](int64_t i) { return int64_t{fate_of(i).kept}; }),
          .masked = parallel_count(settings.threads, tries,
                                   [&](int64_t i) { return int64_t{fate_of(i).masked}; })};
}

/// A share of all tries beside its probability.
Value share_of(int64_t count, int64_t tries, double expected) {
  const double p = kPrZero;
  return {.found = static_cast<double>(count) / static_cast<double>(tries),
          .error = std::sqrt(p * (1 - p) / static_cast<double>(tries)),
          .expected = expected};
}

Grid annealing_grid(const Settings& settings) {
  Names columns;
  for (const Annealing& each : kAnnealings)
    for (const char* what : {"kept", "masked"})
      columns.push_back(fmt::format("{}: {}", each.name, what));
  Grid grid("annealing",
            "Weights by the binade below their block's maximum: shares whose every bit ŵ keeps, "
            "and that noise masks with 0",
            "binade", texts_of(integers(1, kSmallestSurviving), "-{}"), std::move(columns),
            {.expected_is = "Proposition 4"});
  for (size_t r = 0; r < grid.rows.size(); ++r)
    for (size_t c = 0; c < std::size(kAnnealings); ++c) {
      const Annealed found = annealed(kAnnealings[c], static_cast<int>(r) + 1, settings);
      // The proposition bounds both; weights too small to be seen beside noise reach the bounds.
      const bool at_bounds = r + 1 == grid.rows.size();
      grid.at(r, 2 * c) = share_of(found.kept, found.tried, at_bounds ? kPrZero : kNone);
      grid.at(r, 2 * c + 1) = share_of(found.masked, found.tried, at_bounds ? 1 - kPrZero : kNone);
    }
  return grid;
}

/// What is found in columns 0 and 2, or 1 and 3.
std::vector<double> shares(const Grid& grid, size_t first) {
  std::vector<double> all;
  for (size_t r = 0; r < grid.rows.size(); ++r)
    for (const size_t c : {first, first + 2}) all.push_back(grid.at(r, c).found);
  return all;
}

Chart annealing_chart(const Grid& grid) {
  const std::vector<int> binades = integers(1, kSmallestSurviving);
  Chart chart = lines_of(grid, {binades.begin(), binades.end()},
                         "binades below the block's maximum", "share of weights");
  const auto level = [&](const char* name, double share) {
    chart.series.push_back(
        {.name = name, .y = std::vector<double>(binades.size(), share), .reference = true});
  };
  level("Pr(R = 0)", kPrZero);
  level("1 - Pr(R = 0)", 1 - kPrZero);
  return chart;
}

}  // namespace

Section noise_survival_section(const Settings& settings, Progress& progress) {
  const Grid surviving = surviving_grid(settings);
  const Grid annealing = annealing_grid(settings);
  progress.step();
  Section section = section_of("noise", "survival", {surviving, annealing},
                               {{"seen_from_1", all_survive_from(surviving, 0)},
                                {"seen_from_2", all_survive_from(surviving, 1)},
                                {"seen_from_7", all_survive_from(surviving, 5)},
                                {"p_zero", kPrZero},
                                {"p_other", 1 - kPrZero},
                                {"kept", std::ranges::min(shares(annealing, 0))},
                                {"masked", std::ranges::max(shares(annealing, 1))}});
  section.charts = {lines_of(surviving, "ξ - bound", "seen, percent"), annealing_chart(annealing)};
  return section;
}

}  // namespace ng::study
