// study hadamard: what the random Hadamard transform does to outliers, to a block's largest value,
// and to the values themselves. [formats.md §7]
#include "format/hadamard.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <set>

#include "math/round.h"
#include "study/rounded.h"
#include "study/samples.h"
#include "study/study.h"

namespace ng::study {
namespace {

constexpr int64_t kRows = 320;
constexpr int64_t kCols = 6400;  // one in a hundred are 64 columns
constexpr float kOutlier = 30.0f;
constexpr int kSizes[] = {16, 32, 64, 128};
constexpr size_t kSizeCount = std::size(kSizes);
constexpr uint32_t kValueStream = 0, kColumnStream = 1, kPlaceStream = 2;

struct Matrix {
  std::vector<float> values;
  [[nodiscard]] Rows<const float> view() const {
    return {values.data(), static_cast<int64_t>(values.size()) / kCols, kCols, kCols};
  }
};

Matrix normal_matrix(const Settings& settings) {
  const int64_t rows = settings.part_of(kRows, 8);
  return {samples(Distribution::normal, stream(settings.seed, kValueStream), rows * kCols,
                  settings.threads)};
}

/// One in a hundred columns, drawn without repetition, times 30.
Matrix outlier_matrix(const Settings& settings) {
  Matrix x = normal_matrix(settings);
  const RandomKey key = stream(settings.seed, kColumnStream);
  std::set<int64_t> columns;
  for (uint64_t i = 0; static_cast<int64_t>(columns.size()) < kCols / 100; ++i)
    columns.insert(static_cast<int64_t>(uniform(key, i) * kCols));
  for (size_t row = 0; row < x.values.size(); row += kCols)
    for (const int64_t column : columns) x.values[row + static_cast<size_t>(column)] *= kOutlier;
  return x;
}

/// One value in every group of g times 30, at a random place.
Matrix one_in_a_group(const Settings& settings, int g) {
  Matrix x = normal_matrix(settings);
  const RandomKey key = stream(settings.seed, kPlaceStream);
  const auto size = static_cast<size_t>(g);
  for (size_t group = 0; group * size < x.values.size(); ++group)
    x.values[group * size + static_cast<size_t>(uniform(key, group) * g)] *= kOutlier;
  return x;
}

SignBits signs_of(const Settings& settings) {
  return ng::signs_of({.seed = settings.seed, .purpose = Purpose::hadamard_signs}, 0);
}

/// Groups of g values transformed; g = 0: as it is.
Matrix transformed(const Matrix& x, int g, const Settings& settings) {
  Matrix z = x;
  if (g == 0) return z;
  const SignBits signs = signs_of(settings);
  parallel_for(settings.threads, static_cast<int64_t>(z.values.size()) / g,
               [&](int64_t group, int) {
                 hadamard_transform(z.values.data() + group * g, g, signs.data());
               });
  return z;
}

std::string percent_text(double part) { return fmt::format("{:.2f} %", 100 * part); }

// ---------------------------------------------------------------- outliers

struct FormatCase {
  const char* name;
  Operand cast;
  double sqnr[1 + kSizeCount];  ///< the specification's, with outliers: none, then by size
};

std::vector<FormatCase> format_cases() {
  const auto unknown = [](const char* name, const Operand& cast) {
    return FormatCase{name, cast, {kNone, kNone, kNone, kNone, kNone}};
  };
  return {{"MXFP4", operand_of("mxfp4"), {15.9, 18.8, 19.2, 19.2, 19.2}},
          unknown("MXFP4, rceil", block_cast("e2m1", 32, ScaleKind::e8m0, ScaleRule::rceil)),
          unknown("NVFP4", operand_of("nvfp4")),
          unknown("int4, 1x32", block_cast("int4", 32, ScaleKind::fp32, ScaleRule::floor)),
          unknown("MXFP6 E2M3", operand_of("mxfp6_e2m3")),
          unknown("MXFP8 E4M3", operand_of("mxfp8_e4m3")),
          unknown("int8, row", operand_of("int8"))};
}

/// SQNR by format and size of the transform.
Grid sqnr_by_size(std::string name, std::string caption, const Matrix& x, bool with_expected,
                  const Settings& settings, Progress& progress) {
  const std::vector<FormatCase> formats = format_cases();
  std::vector<std::string> names;
  for (const FormatCase& format : formats) names.emplace_back(format.name);
  Grid grid(std::move(name), std::move(caption), "format", std::move(names),
            {"none", "g = 16", "g = 32", "g = 64", "g = 128"});
  for (size_t column = 0; column <= kSizeCount; ++column) {
    const Matrix z = transformed(x, column == 0 ? 0 : kSizes[column - 1], settings);
    for (size_t row = 0; row < formats.size(); ++row) {
      Value& value = grid.at(row, column);
      value.found = cast_error(z.view(), formats[row].cast, settings.threads).sqnr_db;
      if (with_expected) value.expected = formats[row].sqnr[column];
      progress.step();
    }
  }
  return grid;
}

Section outlier_section(const Settings& settings, Progress& progress) {
  const Grid with =
      sqnr_by_size("outliers_sqnr", "SQNR, dB: N(0,1) with 1 % of the columns times 30",
                   outlier_matrix(settings), true, settings, progress);
  const Grid without = sqnr_by_size("plain_sqnr", "SQNR, dB: N(0,1) without outliers",
                                    normal_matrix(settings), false, settings, progress);
  const auto gain = [&](std::string_view format) {
    return with.found(format, "g = 64") - with.found(format, "none");
  };
  return {
      .heading = "Outliers",
      .paragraphs =
          {fmt::format(
               "An outlier takes the scale of its block for itself, and its neighbours vanish: "
               "MXFP4 has {:.1f} dB. Spread over 16 values the outliers leave {:.1f} dB, over "
               "32 to "
               "128 {:.1f} to {:.1f} dB; data without outliers has {:.1f}.",
               with.found("MXFP4", "none"), with.found("MXFP4", "g = 16"),
               with.found("MXFP4", "g = 32"), with.found("MXFP4", "g = 128"),
               without.found("MXFP4", "none")),
           fmt::format(
               "What a transform of 64 gains depends on how much a format suffers: {:+.1f} dB for "
               "int8 with a scale for a whole row, {:+.1f} for int4, {:+.1f} for MXFP4, {:+.1f} "
               "for "
               "MXFP6 E2M3, {:+.1f} for MXFP8 E4M3, and {:+.1f} for NVFP4: its scales put the "
               "largest value of a block on the grid almost exactly, and here that value has "
               "nearly "
               "all the energy, so the SQNR alone hides what its neighbours lose. Without outliers "
               "a transform changes little.",
               gain("int8, row"), gain("int4, 1x32"), gain("MXFP4"), gain("MXFP6 E2M3"),
               gain("MXFP8 E4M3"), gain("NVFP4"))},
      .grids = {with, without},
      .charts = {bars_of(with, "SQNR, dB")}};
}

// ---------------------------------------------------------------- the largest value

/// Mean over groups of g of max|x|, in units of the root mean square of all.
double mean_amax(const Matrix& x, int g) {
  double sum = 0;
  double squares = 0;
  const auto size = static_cast<size_t>(g);
  for (size_t begin = 0; begin < x.values.size(); begin += size) {
    float amax = 0;
    for (size_t i = begin; i < begin + size; ++i) {
      amax = std::max(amax, std::abs(x.values[i]));
      squares += static_cast<double>(x.values[i]) * x.values[i];
    }
    sum += amax;
  }
  const auto count = static_cast<double>(x.values.size());
  return sum / (count / g) / std::sqrt(squares / count);
}

/// E max|x_i| of g independent N(0,1): ∫ 1 - P(|x| < t)^g dt by the midpoint rule.
double expected_normal_amax(int g) {
  constexpr double kStep = 1e-3;
  double sum = 0;
  for (double t = kStep / 2; t < 9; t += kStep)
    sum += 1 - std::pow(std::erf(t * std::numbers::sqrt2 / 2), g);
  return sum * kStep;
}

Section amax_section(const Settings& settings, Progress& progress) {
  std::vector<std::string> rows;
  std::vector<double> sizes;
  for (const int g : kSizes) rows.push_back(std::to_string(g)), sizes.push_back(g);
  Grid grid("amax", "Mean of the largest magnitude of g values, in units of their rms", "g", rows,
            {"N(0,1)", "N(0,1), transformed", "an outlier in each group",
             "an outlier in each group, transformed", "√(2 ln 2g)"});
  grid.expected_is = "exact";
  const Matrix normal = normal_matrix(settings);
  for (size_t i = 0; i < kSizeCount; ++i) {
    const int g = kSizes[i];
    const Matrix outliers = one_in_a_group(settings, g);
    const double exact = expected_normal_amax(g);
    grid.at(i, 0) = {.found = mean_amax(normal, g), .expected = exact};
    grid.at(i, 1) = {.found = mean_amax(transformed(normal, g, settings), g), .expected = exact};
    grid.at(i, 2).found = mean_amax(outliers, g);
    grid.at(i, 3).found = mean_amax(transformed(outliers, g, settings), g);
    grid.at(i, 4).found = std::sqrt(2 * std::log(2.0 * g));
    progress.step();
  }
  Chart chart = lines_of(grid, sizes, "g", "E max|x| / rms");
  chart.x_ticks = sizes;
  chart.log_x = true;
  chart.series.back().reference = true;
  for (Series& series : chart.series) series.expected.clear();
  chart.expected_name.clear();
  return {
      .heading = "The largest value of a block",
      .paragraphs = {fmt::format(
          "From g = 16 to 128 the largest of g normal values grows from {:.2f} to {:.2f} rms, "
          "below and along √(2 ln 2g). With one value in each group 30 times larger it grows "
          "like √g, from {:.1f} to {:.1f}; transformed, it stays between {:.2f} and {:.2f}: one "
          "outlier becomes g values of nearly the same size, and what grows is only the rest.",
          grid.at(0, 0).found, grid.at(3, 0).found, grid.at(0, 2).found, grid.at(3, 2).found,
          grid.at(0, 3).found, grid.at(3, 3).found)},
      .grids = {grid},
      .charts = {chart}};
}

// ---------------------------------------------------------------- rounding of the butterflies

/// The transform of g values in FP64.
void transform_in_double(double* x, int g, const uint32_t* signs) {
  for (int j = 0; j < g; ++j)
    if (((signs[j / 32] >> (j % 32)) & 1) != 0) x[j] = -x[j];
  for (int stride = 1; stride < g; stride *= 2)
    for (int j = 0; j < g; ++j) {
      if ((j & stride) != 0) continue;
      const double u = x[j];
      x[j] = u + x[j + stride];
      x[j + stride] = u - x[j + stride];
    }
  for (int j = 0; j < g; ++j) x[j] *= hadamard_factor(g);
}

struct TransformError {
  double relative_rms = 0;
  double exact_share = 0;
};

TransformError transform_error(const Matrix& x, int g, const Settings& settings) {
  const SignBits signs = signs_of(settings);
  const Matrix z = transformed(x, g, settings);
  double squares = 0;
  double error = 0;
  double exact = 0;
  std::vector<double> wide(static_cast<size_t>(g));
  for (size_t begin = 0; begin < x.values.size(); begin += wide.size()) {
    for (size_t i = 0; i < wide.size(); ++i) wide[i] = x.values[begin + i];
    transform_in_double(wide.data(), g, signs.data());
    for (size_t i = 0; i < wide.size(); ++i) {
      const double off = z.values[begin + i] - wide[i];
      squares += wide[i] * wide[i];
      error += off * off;
      exact += off == 0 ? 1 : 0;
    }
  }
  return {std::sqrt(error / squares), exact / static_cast<double>(x.values.size())};
}

Section rounding_section(const Settings& settings, Progress& progress) {
  constexpr double kSpecRms[] = {5.5e-8, kNone, kNone, 7.2e-8};
  constexpr double kSpecExact[] = {99.99, kNone, kNone, 99.3};
  const std::vector<std::string> columns = {"16", "32", "64", "128"};
  Grid rms("butterfly_error", "rms(error) / rms(z) of the FP32 butterflies, N(0,1) in FP32", "g",
           {"relative rms"}, columns);
  Grid exact("butterfly_exact", "Outputs without any rounding, N(0,1) in BF16, percent", "g",
             {"exact"}, columns);
  rms.digits = 3;
  const Matrix normal = normal_matrix(settings);
  Matrix narrow = normal;
  for (float& v : narrow.values) v = round_to_bf16(v);
  for (size_t i = 0; i < kSizeCount; ++i) {
    rms.at(0, i) = {.found = transform_error(normal, kSizes[i], settings).relative_rms,
                    .expected = kSpecRms[i]};
    exact.at(0, i) = {.found = 100 * transform_error(narrow, kSizes[i], settings).exact_share,
                      .expected = kSpecExact[i]};
    progress.step();
  }
  return {.heading = "Rounding in the transform itself",
          .paragraphs = {fmt::format(
              "The additions round: the relative rms error is {:.1e} at g = 16 and {:.1e} at g = "
              "128, a hundred thousand times below that of the formats. Of BF16 values {} to {} "
              "come out exactly.",
              rms.at(0, 0).found, rms.at(0, 3).found, percent_text(exact.at(0, 0).found / 100),
              percent_text(exact.at(0, 3).found / 100))},
          .grids = {rms, exact},
          .charts = {}};
}

Report hadamard(const Settings& settings) {
  Progress progress(settings, static_cast<int64_t>(2 * (1 + kSizeCount) * format_cases().size() +
                                                   2 * kSizeCount));
  return {.name = "hadamard",
          .title = "What the random Hadamard transform does to outliers",
          .sections = {outlier_section(settings, progress), amax_section(settings, progress),
                       rounding_section(settings, progress)}};
}

}  // namespace

extern const Study kHadamard;
const Study kHadamard{"hadamard", "outliers spread by the random Hadamard transform, g = 16 to 128",
                      hadamard};

}  // namespace ng::study
