// study scales: are E8M0 block scales worse than E4M3 ones? Relative MSE of E2M1 blocks under every
// kind of scale and rule, what a scale off the ideal one costs, and other elements.
// [formats.md §8]
#include <algorithm>
#include <cmath>
#include <numeric>

#include "format/codec.h"
#include "study/rounded.h"
#include "study/samples.h"
#include "study/study.h"

namespace ng::study {
namespace {

constexpr int64_t kRows = 2048;
constexpr int64_t kCols = 1024;
constexpr int64_t kValues = kRows * kCols;
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

std::vector<std::string> scale_names() {
  std::vector<std::string> names;
  for (const ScaleCase& scale : kScaleCases) names.emplace_back(scale.name);
  return names;
}

std::vector<std::string> data_names() {
  std::vector<std::string> names;
  for (const DataCase& data : kDataCases)
    names.push_back(fmt::format("{}, {}", name_of(data.distribution), data.block));
  return names;
}

/// Values in whole rows, and what their blocks were multiplied by.
struct Data {
  std::vector<float> values;
  std::vector<float> factors = {};

  [[nodiscard]] Rows<const float> view() const {
    return {values.data(), static_cast<int64_t>(values.size()) / kCols, kCols, kCols};
  }
};

Data data_of(const Settings& settings, Distribution distribution) {
  const int64_t rows = settings.part_of(kRows, 1);
  const RandomKey key = stream(settings.seed, static_cast<uint32_t>(distribution));
  return {samples(distribution, key, rows * kCols, settings.threads)};
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
            data_names(), scale_names());
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
  Grid grid("sqnr", "The same as signal to quantization noise ratio, dB", mse.corner, mse.rows,
            mse.columns);
  std::transform(mse.values.begin(), mse.values.end(), grid.values.begin(), [](const Value& value) {
    return Value{.found = decibels(value.found), .expected = decibels(value.expected)};
  });
  return grid;
}

/// What E8M0 loses against E4M3 nearest at the same block size, dB, over both block sizes.
struct Loss {
  double least, most;
  std::string best_rule, worst_rule;  // those of the extremes
};
Loss loss_of(const Grid& sqnr, Distribution distribution) {
  Loss loss{.least = 1e9, .most = -1e9, .best_rule = {}, .worst_rule = {}};
  for (size_t r = 0; r < kDataRows; ++r) {
    if (kDataCases[r].distribution != distribution) continue;
    for (size_t c = kFirstE8m0; c < kScales; ++c) {
      const double lost = sqnr.at(r, kE4m3Nearest).found - sqnr.at(r, c).found;
      if (lost < loss.least) loss.least = lost, loss.best_rule = sqnr.columns[c];
      if (lost > loss.most) loss.most = lost, loss.worst_rule = sqnr.columns[c];
    }
  }
  return loss;
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
  const Loss normal = loss_of(sqnr, Distribution::normal);
  const Loss laplace = loss_of(sqnr, Distribution::laplace);
  const Loss uniform = loss_of(sqnr, Distribution::uniform);
  const int64_t values =
      static_cast<int64_t>(data_of(settings, Distribution::uniform).values.size());
  return {
      .heading = "E8M0 and E4M3 scales",
      .paragraphs =
          {fmt::format(
               "Each block is multiplied by 2^U with U uniform in (0, 1), so that no rule "
               "is favoured by where the data lies between two powers of two, and the error "
               "is taken in the units from before that; {} values a row. The largest difference "
               "from the specification's table is {:.2f} %.",
               values, worst_difference(mse)),
           fmt::format(
               "At equal block size a power-of-two scale costs {:.1f} to {:.1f} dB against an E4M3 "
               "scale on Gaussian data ({} least, {} most) and {:.1f} to {:.1f} dB on Laplace data "
               "({} least, {} most). It is no law: on uniform data the gap is {:.2f} dB with {}.",
               normal.least, normal.most, normal.best_rule, normal.worst_rule, laplace.least,
               laplace.most, laplace.best_rule, laplace.worst_rule, uniform.least,
               uniform.best_rule),
           fmt::format("As the formats are defined, MXFP4 with the floor rule (blocks of 32) has "
                       "{:.2f} dB and NVFP4 (blocks of 16) {:.2f} dB on N(0,1).",
                       sqnr.found("N(0,1), 32", "E8M0 floor"),
                       sqnr.found("N(0,1), 16", "E4M3 nearest"))},
      .grids = {mse, sqnr},
      .charts = {bars_of(mse, "relative MSE")}};
}

// ---------------------------------------------------------------- one phase only

Section phase_section(const Settings& settings, Progress& progress) {
  Grid grid("fixed_phase", "Relative MSE of uniform data on ±√3 as it is, blocks of 32", "data",
            {"Uniform, 32"}, scale_names());
  const Data x = data_of(settings, Distribution::uniform);
  for (size_t c = 0; c < kScales; ++c) {
    grid.at(0, c).found = e2m1_error(x, kScaleCases[c], 32, settings).relative_mse;
    progress.step();
  }
  grid.at(0, kE4m3Nearest).expected = .01134;
  grid.at(0, kFirstE8m0).expected = .01029;
  const double floor = grid.found("Uniform, 32", "E8M0 floor");
  const double nearest = grid.found("Uniform, 32", "E4M3 nearest");
  return {.heading = "An unlucky phase",
          .paragraphs = {fmt::format(
              "Without the random factor every block has nearly the same maximum, √3. There the "
              "floor rule's {:.5f} is {} E4M3's {:.5f}: amax/6 is not the scale with the least "
              "error, and a power of two may happen to lie closer to it.",
              floor, floor < nearest ? "below" : "above", nearest)},
          .grids = {grid},
          .charts = {}};
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

Grid listed_ratios(const Settings& settings) {
  std::vector<double> rhos;
  std::vector<std::string> columns;
  for (const RhoCase& point : kRhoCases) {
    rhos.push_back(point.rho);
    columns.push_back(fmt::format("{:.4g}", point.rho));
  }
  Grid grid("scale_ratio", "Relative MSE D(ρ), each scale ρ·amax/6, N(0,1), blocks of 32", "ρ",
            {"E2M1"}, std::move(columns));
  const std::vector<double> errors = errors_at(rhos, settings, kValues);
  for (size_t i = 0; i < errors.size(); ++i)
    grid.at(0, i) = {.found = errors[i], .expected = kRhoCases[i].relative_mse};
  grid.digits = 3;
  return grid;
}

/// The curve between them, over fewer values.
Grid ratio_curve(const Settings& settings, std::span<const double> rhos) {
  std::vector<std::string> rows;
  for (const double rho : rhos) rows.push_back(fmt::format("{:.2f}", rho));
  Grid grid("scale_ratio_curve", "Relative MSE D(ρ), each scale ρ·amax/6, N(0,1), blocks of 32",
            "ρ", std::move(rows), {"E2M1"});
  const std::vector<double> errors = errors_at(rhos, settings, kValues / 8);
  for (size_t i = 0; i < errors.size(); ++i) {
    grid.values[i].found = errors[i];
    for (const RhoCase& point : kRhoCases)
      if (std::abs(point.rho - rhos[i]) < 1e-9) grid.values[i].expected = point.relative_mse;
  }
  grid.shown = false;
  return grid;
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
  Chart chart = lines_of(curve, rhos, "ρ = scale / (amax/6)", "relative MSE");
  chart.x_ticks = {.75, 1, 1.25, 1.5, 1.75, 2};
  return {.heading = "What a scale off the ideal one costs",
          .paragraphs = {fmt::format(
              "E4M3 scales lie within 1 ± 1/17 of amax/6; the floor rule spreads ρ over (3/4, "
              "3/2], rules that never clip over [1, 2). E2M1 is half logarithmic, so the error is "
              "no parabola: it is least, {:.4f}, at ρ = {:.2f}, and at {:.2f}, where the largest "
              "value lies near the grid's 4, it has a second minimum of {:.4f}.",
              curve.values[first].found, rhos[first], rhos[second], curve.values[second].found)},
          .grids = {listed, curve},
          .charts = {chart}};
}

// ---------------------------------------------------------------- other elements

struct ElementCase {
  const char* element;
  double sqnr[2];     ///< floor, rceil
  double saturation;  ///< floor, percent
};
constexpr ElementCase kElementCases[] = {
    {"e4m3", {30.5, 31.5}, .8}, {"e5m2", {25.3, 25.6}, .8},  {"e2m3", {31.0, 31.0}, .3},
    {"e3m2", {25.3, 25.6}, .8}, {"e2m1", {18.7, 18.6}, 2.5}, {"mxint8", {42.0, kNone}, kNone}};
constexpr ScaleRule kElementRules[] = {ScaleRule::floor, ScaleRule::rceil};

Section element_section(const Settings& settings, Progress& progress) {
  std::vector<std::string> names;
  for (const ElementCase& element : kElementCases) names.emplace_back(element.element);
  Grid sqnr("elements_sqnr", "SQNR of N(0,1), dB, E8M0 scales, blocks of 32", "element", names,
            {"floor", "rceil"});
  Grid lost("elements_lost", "Values lost, percent of all", "element", names,
            {"underflow, floor", "underflow, rceil", "saturation, floor", "saturation, rceil"});
  sqnr.digits = lost.digits = 3;
  const Data x = spread_data(settings, Distribution::normal, 32);
  for (size_t r = 0; r < names.size(); ++r) {
    const ElementCase& element = kElementCases[r];
    for (size_t rule = 0; rule < 2; ++rule) {
      const Operand cast = block_cast(element.element, 32, ScaleKind::e8m0, kElementRules[rule]);
      const ErrorMetrics error = cast_error(x.view(), cast, settings.threads, x.factors);
      sqnr.at(r, rule) = {.found = error.sqnr_db, .expected = element.sqnr[rule]};
      lost.at(r, rule).found = 100 * error.underflow;
      lost.at(r, 2 + rule).found = 100 * error.saturation;
      progress.step();
    }
    lost.at(r, 2).expected = element.saturation;
  }
  const size_t e2m1 = 4;
  lost.at(e2m1, 0).expected = 8.4;
  lost.at(e2m1, 1).expected = 11.2;
  return {.heading = "Other elements",
          .paragraphs = {fmt::format(
              "More mantissa bits buy about 6 dB each, but only where the scale does not clip: "
              "rceil gains {:.1f} dB on E4M3 and {:.1f} on E5M2, and on E2M1 it trades {:.1f} % of "
              "saturated values for {:.1f} % more that vanish. The specification's list is rounded "
              "to one decimal.",
              sqnr.at(0, 1).found - sqnr.at(0, 0).found, sqnr.at(1, 1).found - sqnr.at(1, 0).found,
              lost.at(e2m1, 2).found, lost.at(e2m1, 1).found - lost.at(e2m1, 0).found)},
          .grids = {sqnr, lost},
          .charts = {bars_of(sqnr, "SQNR, dB"), bars_of(lost, "percent of the values")}};
}

Report scales(const Settings& settings) {
  Progress progress(settings, kDataRows * kScales + kScales + 2 + 2 * std::size(kElementCases));
  return {.name = "scales",
          .title = "Are power-of-two block scales worse than E4M3 ones?",
          .sections = {scale_section(settings, progress), phase_section(settings, progress),
                       rho_section(settings, progress), element_section(settings, progress)}};
}

}  // namespace

extern const Study kScales;
const Study kScales{"scales", "E8M0 against E4M3 block scales, every rule, three distributions",
                    scales};

}  // namespace ng::study
