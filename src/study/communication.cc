// study communication: what the wire between ranks leaves of a mean of gradients; exact sums of
// gradients sent in other formats than E4M3. [recipes.md §4.2; errata-2, 27-34; FP8-LM, 3.1]
#include <algorithm>
#include <array>
#include <cmath>

#include "numbers/errors.h"
#include "study/communication_sections.h"
#include "study/mean.h"
#include "study/samples.h"
#include "study/simulated_ranks.h"

namespace ng::study {
namespace {

constexpr uint32_t kStream = 702;
constexpr int kRanks[] = {2, 8, 32, 128};
constexpr size_t kRankCounts = std::size(kRanks), kEight = 1;
constexpr int64_t kDraws = 2;
constexpr GradientKind kKinds[] = {{.name = "independent"},
                                   {.name = "correlated", .correlation = 0.9}};
constexpr size_t kKindCount = std::size(kKinds);

constexpr size_t kSharedE4m3 = 1;

struct WireFormat {
  const char* name;
  Operand cast;
};

/// Scales rounded up: no value lies above the largest element, and rounding is unbiased.
Operand mxfp4_without_clipping() {
  Operand cast = operand_of("mxfp4").rounded_by(Rounding::stochastic);
  cast.scale_rule = ScaleRule::rceil;
  return cast;
}

const std::vector<WireFormat>& wire_formats() {
  static const std::vector<WireFormat> kFormats = {
      {"BF16", operand_of("bf16")},
      {"E4M3, pow2 scale", shared_e4m3(ScaleKind::pow2)},
      {"MXFP8", operand_of("mxfp8_e4m3")},
      {"NVFP4", operand_of("nvfp4")},
      {"MXFP4", operand_of("mxfp4")},
      {"MXFP4, stochastic", operand_of("mxfp4").rounded_by(Rounding::stochastic)},
      {"MXFP4 rceil, stochastic", mxfp4_without_clipping()}};
  return kFormats;
}

/// Relative mean squared errors by format, kind and number of ranks, of all draws.
using Errors = std::vector<std::array<std::array<Mean, kRankCounts>, kKindCount>>;

int64_t draws_of(const Settings& settings) { return settings.part_of(kDraws, 1); }

/// That of means over the first 2, 8, ... ranks.
std::array<double, kRankCounts> errors_of(const Operand& cast, ValuesByRank gradients,
                                          const RandomKey& key) {
  std::array<double, kRankCounts> errors{};
  SimulatedWire wire(cast, kGradientRows, kGradientCols);
  for (size_t r = 0; r < kRankCounts; ++r) {
    const ValuesByRank some = gradients.first(static_cast<size_t>(kRanks[r]));
    ErrorSums sums;
    sums.add(exact_mean(some),
             wire.reduce(wire.send(some, {}, key), GradientRecipe::Reduce::fp32).mean);
    errors[r] = sums.metrics().relative_mse;
  }
  return errors;
}

Errors measured(const Settings& settings, Progress& progress) {
  const std::vector<WireFormat>& formats = wire_formats();
  Errors all(formats.size());
  for (size_t kind = 0; kind < kKindCount; ++kind)
    for (int64_t draw = 0; draw < draws_of(settings); ++draw) {
      RandomKey key = stream(settings.seed, kStream);
      key.step = static_cast<uint32_t>(draw);
      const std::vector<std::vector<float>> gradients =
          drawn_gradients(kKinds[kind], key, kRanks[kRankCounts - 1], kGradientRows * kGradientCols,
                          settings.threads);
      key.purpose = Purpose::gradient_wire;
      parallel_for(settings.threads, std::ssize(formats), [&](int64_t item, int) {
        const auto f = static_cast<size_t>(item);
        const auto errors = errors_of(formats[f].cast, gradients, key);
        for (size_t r = 0; r < kRankCounts; ++r) all[f][kind][r].add(errors[r]);
      });
      progress.step();
    }
  return all;
}

/// At 8 ranks.
Grid format_grid(const Errors& errors) {
  Grid grid("formats",
            fmt::format("Exact sums of {} ranks by the format that each sends", kRanks[kEight]),
            "format", names_of(wire_formats()),
            {"bits per element", "relative RMS error", "SNR, dB", "ρ = 0.9: relative RMS error",
             "ρ = 0.9: SNR, dB"});
  for (size_t f = 0; f < errors.size(); ++f) {
    grid.at(f, 0).found = bits_per_value(wire_formats()[f].cast);
    for (size_t kind = 0; kind < kKindCount; ++kind) {
      const Mean& error = errors[f][kind][kEight];
      grid.at(f, 1 + 2 * kind).found = std::sqrt(error.mean());
      grid.at(f, 2 + 2 * kind).found = decibels(error.mean());
    }
  }
  grid.at(kSharedE4m3, 1).expected = 0.0265;  // "quantizing alone" [distributed.md §1]
  return grid;
}

Grid ranks_grid(const Errors& errors, size_t kind) {
  return Grid(fmt::format("formats_by_ranks_{}", kKinds[kind].name),
              fmt::format("SNR of exact sums, dB; gradients {}",
                          kind == 0 ? "independent" : "with ρ = 0.9"),
              "ranks", texts_of(kRanks), names_of(wire_formats()), {.digits = 3})
      .filled([&](size_t r, size_t f) { return decibels(errors[f][kind][r].mean()); });
}

Panels panels_of(std::span<const Grid> grids) {
  Panels panels{.caption = "SNR of exact sums by format and ranks", .charts = {}};
  for (size_t kind = 0; kind < kKindCount; ++kind) {
    Chart& chart = panels.charts.emplace_back(lines_of(grids[kind], "ranks", "dB"));
    chart.caption = kind == 0 ? "independent" : "ρ = 0.9";
    show_each_x(chart);
  }
  return panels;
}

// ---------------------------------------------------------------- the study

Report communication(const Settings& settings) {
  Progress progress(settings, communication_sum_steps(settings) +
                                  communication_scale_steps(settings) +
                                  communication_format_steps(settings));
  Report report{.name = "communication",
                .title = title_of("communication"),
                .sections = {section_of("communication", "scope", {})}};
  for (Section& section : communication_sum_sections(settings, progress))
    report.sections.push_back(std::move(section));
  report.sections.push_back(communication_scale_section(settings, progress));
  report.sections.push_back(communication_format_section(settings, progress));
  return report;
}

}  // namespace

int64_t communication_format_steps(const Settings& settings) {
  return static_cast<int64_t>(kKindCount) * draws_of(settings);
}

Section communication_format_section(const Settings& settings, Progress& progress) {
  const Errors errors = measured(settings, progress);
  const Grid by_ranks[] = {ranks_grid(errors, 0), ranks_grid(errors, 1)};
  Section section =
      section_of("communication", "formats", {format_grid(errors), by_ranks[0], by_ranks[1]});
  section.panels = {panels_of(by_ranks)};
  return section;
}

extern const Study kCommunication;
const Study kCommunication{
    "communication",
    "sums of gradients over 2 to 128 ranks: pre-, post-, auto-scaling, exact; formats on the wire",
    communication};

}  // namespace ng::study
