// study scales: are E8M0 block scales worse than E4M3 ones? Relative MSE of E2M1 blocks under every
// kind of scale and rule, what a scale off the ideal one costs, and other elements.
// [formats.md §8]
#include <algorithm>
#include <cmath>

#include "format/codec.h"
#include "study/mean.h"
#include "study/samples.h"
#include "study/study.h"
#include "study/written.h"

namespace ng::study {
namespace {

constexpr int64_t kScalesRows = 2048;
constexpr int64_t kScalesCols = 1024;
constexpr int64_t kValues = kScalesRows * kScalesCols;
constexpr uint32_t kPhaseStream = 16;  // behind those of the distributions

/// A kind of scale with its rule: a column of the table.
struct ScaleCase {
  const char* name;
  ScaleKind kind;
  ScaleRule rule;
};
constexpr ScaleCase kScaleCases[] = {
    {"FP32", ScaleKind::fp32, ScaleRule::floor},
    {"E4M3 nearest", ScaleKind::e4m3, ScaleRule::nearest},
    {"E4M3 up", ScaleKind::e4m3, ScaleRule::up},
    {"E8M0 floor", ScaleKind::e8m0, ScaleRule::floor},
    {"E8M0 even", ScaleKind::e8m0, ScaleRule::even},
    {"E8M0 rceil", ScaleKind::e8m0, ScaleRule::rceil},
    {"E8M0 mse", ScaleKind::e8m0, ScaleRule::mse},
};
constexpr size_t kE4m3Nearest = 1;
constexpr size_t kFirstE8m0 = 3;
constexpr size_t kScales = std::size(kScaleCases);

/// Data and block size: a row of the table, with the specification's figures.
struct DataCase {
  Distribution distribution;
  int block;
  double relative_mse[kScales];
};
constexpr DataCase kDataCases[] = {
    {Distribution::normal, 16, {.00887, .00905, .01009, .01372, .01208, .01284, .01204}},
    {Distribution::normal, 32, {.01022, .01033, .01112, .01334, .01259, .01364, .01248}},
    {Distribution::laplace, 16, {.00833, .00861, .00999, .01560, .01371, .01517, .01361}},
    {Distribution::laplace, 32, {.01054, .01073, .01191, .01595, .01531, .01753, .01502}},
    {Distribution::uniform, 16, {.01013, .01024, .01195, .01278, .01118, .01143, .01117}},
    {Distribution::uniform, 32, {.01108, .01115, .01278, .01237, .01121, .01149, .01120}},
};
constexpr size_t kDataRows = std::size(kDataCases);

Names data_names() {
  Names names;
  for (const DataCase& data : kDataCases)
    names.push_back(fmt::format("{}, {}", name_of(data.distribution), data.block));
  return names;
}

/// Values in whole rows, and what their blocks were multiplied by.
struct Data {
  std::vector<float> values;
  std::vector<float> factors = {};

  [[nodiscard]] Rows<const float> view() const {
    return {values.data(), static_cast<int64_t>(values.size()) / kScalesCols, kScalesCols,
            kScalesCols};
  }
};

Data data_of(const Settings& settings, Distribution distribution) {
  const int64_t rows = settings.part_of(kScalesRows, 1);
  const RandomKey key = stream(settings.seed, static_cast<uint32_t>(distribution));
  return {samples(distribution, key, rows * kScalesCols, settings.threads)};
}

/// The same with every block at its own place between two powers of two.
Data spread_data(const Settings& settings, Distribution distribution, int block) {
  Data x = data_of(settings, distribution);
  x.factors = spread_phases(x.values, block, stream(settings.seed, kPhaseStream), settings.threads);
  return x;
}

ErrorMetrics e2m1_error(const Data& x, const ScaleCase& scale, int block,
                        const Settings& settings) {
  return cast_error(x.view(), block_cast("e2m1", block, scale.kind, scale.rule), settings.threads,
                    x.factors);
}

// ---------------------------------------------------------------- every kind of scale

Grid relative_mse(const Settings& settings, Progress& progress) {
  Grid grid("relative_mse", "Relative mean squared error of E2M1 blocks", "data, block",
            data_names(), names_of(kScaleCases));
  for (size_t row = 0; row < kDataRows; ++row) {
    const DataCase& data = kDataCases[row];
    const Data x = spread_data(settings, data.distribution, data.block);
    for (size_t c = 0; c < kScales; ++c) {
      const ErrorMetrics error = e2m1_error(x, kScaleCases[c], data.block, settings);
      grid.at(row, c) = {.found = error.relative_mse, .expected = data.relative_mse[c]};
      progress.step();
    }
  }
  return grid;
}

Grid in_decibels(const Grid& mse) {
  return Grid("sqnr", "The same as signal to quantization noise ratio, dB", mse.corner, mse.rows,
              mse.columns)
      .filled([&](size_t r, size_t c) {
        const Value& value = mse.at(r, c);
        return Value{.found = decibels(value.found), .expected = decibels(value.expected)};
      });
}

/// What E8M0 loses against E4M3 nearest at the same block size, dB, over both block sizes: the
/// extremes, and the rules that have them.
void add_loss(Facts& facts, const Grid& sqnr, Distribution distribution) {
  double least = 1e9, most = -1e9;
  const std::string_view data = name_of(distribution);
  for (size_t r = 0; r < kDataRows; ++r) {
    if (kDataCases[r].distribution != distribution) continue;
    for (size_t c = kFirstE8m0; c < kScales; ++c) {
      const double lost = sqnr.at(r, kE4m3Nearest).found - sqnr.at(r, c).found;
      if (lost < least) least = lost, facts[fmt::format("{} best", data)] = sqnr.columns[c];
      if (lost > most) most = lost, facts[fmt::format("{} worst", data)] = sqnr.columns[c];
    }
  }
  facts[fmt::format("{} least", data)] = least;
  facts[fmt::format("{} most", data)] = most;
}

double worst_difference(const Grid& grid) {
  double worst = 0;
  for (const Value& value : grid.values)
    worst = std::max(worst, std::abs(difference_percent(value)));
  return worst;
}

Section scale_section(const Settings& settings, Progress& progress) {
  const Grid mse = relative_mse(settings, progress);
  const Grid sqnr = in_decibels(mse);
  Facts facts = {{"values", std::ssize(data_of(settings, Distribution::uniform).values)},
                 {"worst", worst_difference(mse)}};
  for (const auto data : {Distribution::normal, Distribution::laplace, Distribution::uniform})
    add_loss(facts, sqnr, data);
  Section section = section_of("scales", "scales", {mse, sqnr}, facts);
  section.charts = {bars_of(mse, "relative MSE")};
  return section;
}

// ---------------------------------------------------------------- one phase only

Section phase_section(const Settings& settings, Progress& progress) {
  Grid grid("fixed_phase", "Relative MSE of uniform data on ±√3 as it is, blocks of 32", "data",
            {"Uniform, 32"}, names_of(kScaleCases));
  const Data x = data_of(settings, Distribution::uniform);
  for (size_t c = 0; c < kScales; ++c) {
    grid.at(0, c).found = e2m1_error(x, kScaleCases[c], 32, settings).relative_mse;
    progress.step();
  }
  grid.at(0, kE4m3Nearest).expected = .01134;
  grid.at(0, kFirstE8m0).expected = .01029;
  const bool is_below = grid.at(0, kFirstE8m0).found < grid.at(0, kE4m3Nearest).found;
  return section_of("scales", "phase", {grid}, {{"below", is_below ? "below" : "above"}});
}

// ---------------------------------------------------------------- scales off the ideal one

/// Relative MSE of E2M1 where every scale is ρ·amax/6.
double error_at(const std::vector<float>& x, int block, double rho) {
  const ElementFormat& e2m1 = element_format("e2m1");
  const FloatGrid grid = grid_of(e2m1);
  double squared = 0;
  double signal = 0;
  for (size_t begin = 0; begin + static_cast<size_t>(block) <= x.size();
       begin += static_cast<size_t>(block)) {
    const std::span<const float> values(x.data() + begin, static_cast<size_t>(block));
    double amax = 0;
    for (const float v : values) amax = std::max<double>(amax, std::abs(v));
    const double scale = rho * amax / 6;
    for (const float v : values) {
      const auto y = static_cast<float>(v / scale);
      const uint32_t code = encode_float(grid, y, {}, OverflowRule::saturate);
      const double off = decode_float(grid, code) * scale - v;
      squared += off * off;
      signal += static_cast<double>(v) * v;
    }
  }
  return squared / signal;
}

struct RhoCase {
  double rho, relative_mse;
};
constexpr RhoCase kRhoCases[] = {{.75, .0232}, {.85, .0136},  {.95, .0102}, {1, .0102},
                                 {1.2, .0175}, {1.33, .0122}, {1.5, .0115}, {2, .0161}};

/// Relative MSE by ρ on N(0,1), blocks of 32, over at most so many values.
std::vector<double> errors_at(std::span<const double> rhos, const Settings& settings,
                              size_t most_values) {
  std::vector<float> x = data_of(settings, Distribution::normal).values;
  x.resize(std::min(x.size(), most_values));
  std::vector<double> errors(rhos.size());
  parallel_for(settings.threads, static_cast<int64_t>(rhos.size()), [&](int64_t i, int) {
    errors[static_cast<size_t>(i)] = error_at(x, 32, rhos[static_cast<size_t>(i)]);
  });
  return errors;
}

constexpr const char* kRatioCaption =
    "Relative MSE D(ρ), each scale ρ·amax/6, N(0,1), blocks of 32";

Grid listed_ratios(const Settings& settings) {
  std::vector<double> rhos;
  for (const RhoCase& point : kRhoCases) rhos.push_back(point.rho);
  const std::vector<double> errors = errors_at(rhos, settings, kValues);
  return Grid("scale_ratio", kRatioCaption, "ρ", {"E2M1"}, texts_of(rhos, "{:.4g}"), {.digits = 3})
      .filled([&](size_t, size_t i) {
        return Value{.found = errors[i], .expected = kRhoCases[i].relative_mse};
      });
}

/// The curve between them, over fewer values.
Grid ratio_curve(const Settings& settings, std::span<const double> rhos) {
  const std::vector<double> errors = errors_at(rhos, settings, kValues / 8);
  return Grid("scale_ratio_curve", kRatioCaption, "ρ", texts_of(rhos, "{:.2f}"), {"E2M1"},
              {.shown = false})
      .filled([&](size_t i, size_t) {
        Value value{.found = errors[i]};
        for (const RhoCase& point : kRhoCases)
          if (std::abs(point.rho - rhos[i]) < 1e-9) value.expected = point.relative_mse;
        return value;
      });
}

Section rho_section(const Settings& settings, Progress& progress) {
  const Grid listed = listed_ratios(settings);
  progress.step();
  std::vector<double> rhos;
  for (int percent = 70; percent <= 200; ++percent) rhos.push_back(percent / 100.0);
  const Grid curve = ratio_curve(settings, rhos);
  progress.step();
  const auto least_between = [&](double low, double high) {
    size_t best = 0;
    for (size_t i = 0; i < rhos.size(); ++i)
      if (rhos[i] >= low && rhos[i] <= high &&
          (rhos[best] < low || curve.values[i].found < curve.values[best].found))
        best = i;
    return best;
  };
  const size_t first = least_between(.8, 1.15);
  const size_t second = least_between(1.25, 1.65);
  Section section = section_of("scales", "ratio", {listed, curve},
                               {{"least", curve.values[first].found},
                                {"least_at", rhos[first]},
                                {"second", curve.values[second].found},
                                {"second_at", rhos[second]}});
  section.charts = {lines_of(curve, "ρ = scale / (amax/6)", "relative MSE")};
  section.charts[0].x_ticks = {.75, 1, 1.25, 1.5, 1.75, 2};
  return section;
}

// ---------------------------------------------------------------- other elements

struct ElementCase {
  const char* name;
  double sqnr[2];     ///< floor, rceil
  double saturation;  ///< floor, percent
  double underflow[2] = {kNone, kNone};
};
constexpr ElementCase kElementCases[] = {{"e4m3", {30.5, 31.5}, .8},
                                         {"e5m2", {25.3, 25.6}, .8},
                                         {"e2m3", {31.0, 31.0}, .3},
                                         {"e3m2", {25.3, 25.6}, .8},
                                         {"e2m1", {18.7, 18.6}, 2.5, {8.4, 11.2}},
                                         {"mxint8", {42.0, kNone}, kNone}};
constexpr ScaleRule kElementRules[] = {ScaleRule::floor, ScaleRule::rceil};

Section element_section(const Settings& settings, Progress& progress) {
  const Names names = names_of(kElementCases);
  Grid sqnr("elements_sqnr", "SQNR of N(0,1), dB, E8M0 scales, blocks of 32", "element", names,
            {"floor", "rceil"}, {.digits = 3});
  Grid lost("elements_lost", "Values lost, percent of all", "element", names,
            {"underflow, floor", "underflow, rceil", "saturation, floor", "saturation, rceil"},
            {.digits = 3});
  const Data x = spread_data(settings, Distribution::normal, 32);
  for (size_t r = 0; r < names.size(); ++r) {
    const ElementCase& element = kElementCases[r];
    for (size_t rule = 0; rule < 2; ++rule) {
      const Operand cast = block_cast(element.name, 32, ScaleKind::e8m0, kElementRules[rule]);
      const ErrorMetrics error = cast_error(x.view(), cast, settings.threads, x.factors);
      sqnr.at(r, rule) = {.found = error.sqnr_db, .expected = element.sqnr[rule]};
      lost.at(r, rule) = {.found = 100 * error.underflow, .expected = element.underflow[rule]};
      lost.at(r, 2 + rule).found = 100 * error.saturation;
      progress.step();
    }
    lost.at(r, 2).expected = element.saturation;
  }
  Section section = section_of("scales", "elements", {sqnr, lost});
  section.charts = {bars_of(sqnr, "SQNR, dB"), bars_of(lost, "percent of the values")};
  return section;
}

Report scales(const Settings& settings) {
  Progress progress(settings, kDataRows * kScales + kScales + 2 + 2 * std::size(kElementCases));
  return {.name = "scales",
          .title = title_of("scales"),
          .sections = {scale_section(settings, progress), phase_section(settings, progress),
                       rho_section(settings, progress), element_section(settings, progress)}};
}

}  // namespace

extern const Study kScales;
const Study kScales{"scales", "E8M0 against E4M3 block scales, every rule, three distributions",
                    scales};

}  // namespace ng::study
