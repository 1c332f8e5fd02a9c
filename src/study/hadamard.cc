// study hadamard: what the random Hadamard transform does to outliers, to a block's largest value,
// and to the values themselves. [formats.md §7]
#include "format/hadamard.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "math/round.h"
#include "study/hadamard_sections.h"
#include "study/mean.h"
#include "study/samples.h"
#include "study/written.h"

namespace ng::study {
namespace {

constexpr size_t kSizeCount = std::size(kHadamardSizes);

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
Grid sqnr_by_size(std::string name, std::string caption, const HadamardMatrix& x,
                  bool with_expected, const Settings& settings, Progress& progress) {
  const std::vector<FormatCase> formats = format_cases();
  Grid grid(std::move(name), std::move(caption), "format", names_of(formats),
            {"none", "g = 16", "g = 32", "g = 64", "g = 128"});
  for (size_t column = 0; column <= kSizeCount; ++column) {
    const HadamardMatrix z = transformed(x, column == 0 ? 0 : kHadamardSizes[column - 1], settings);
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
  Facts gains;
  for (const std::string& format : with.rows)
    gains[format] = with.found(format, "g = 64") - with.found(format, "none");
  Section section = section_of("hadamard", "outliers", {with, without}, gains);
  section.charts = {bars_of(with, "SQNR, dB")};
  return section;
}

// ---------------------------------------------------------------- the largest value

/// Mean over groups of g of max|x|, in units of the root mean square of all.
double mean_amax(const HadamardMatrix& x, int g) {
  double sum = 0;
  const auto size = static_cast<size_t>(g);
  for (size_t begin = 0; begin < x.values.size(); begin += size) {
    float amax = 0;
    for (size_t i = begin; i < begin + size; ++i) amax = std::max(amax, std::abs(x.values[i]));
    sum += amax;
  }
  return sum / (static_cast<double>(x.values.size()) / g) / root_mean_square(x.values);
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
  Grid grid("amax", "Mean of the largest magnitude of g values, in units of their rms", "g",
            texts_of(kHadamardSizes),
            {"N(0,1)", "N(0,1), transformed", "an outlier in each group",
             "an outlier in each group, transformed", "√(2 ln 2g)"},
            {.expected_is = "exact"});
  const HadamardMatrix normal = normal_matrix(settings);
  for (size_t i = 0; i < kSizeCount; ++i) {
    const int g = kHadamardSizes[i];
    const HadamardMatrix outliers = one_in_a_group(settings, g);
    const double exact = expected_normal_amax(g);
    grid.at(i, 0) = {.found = mean_amax(normal, g), .expected = exact};
    grid.at(i, 1) = {.found = mean_amax(transformed(normal, g, settings), g), .expected = exact};
    grid.at(i, 2).found = mean_amax(outliers, g);
    grid.at(i, 3).found = mean_amax(transformed(outliers, g, settings), g);
    grid.at(i, 4).found = std::sqrt(2 * std::log(2.0 * g));
    progress.step();
  }
  Section section = section_of("hadamard", "amax", {grid});
  Chart& chart = section.charts.emplace_back(lines_of(grid, "g", "E max|x| / rms"));
  show_each_x(chart);
  hide_expected(chart);
  chart.series.back().reference = true;
  return section;
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

TransformError transform_error(const HadamardMatrix& x, int g, const Settings& settings) {
  const SignBits signs = hadamard_study_signs(settings);
  const HadamardMatrix z = transformed(x, g, settings);
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
  Grid rms("butterfly_error", "rms(error) / rms(z) of the FP32 butterflies, N(0,1) in FP32", "g",
           {"relative rms"}, texts_of(kHadamardSizes), {.digits = 3});
  Grid exact("butterfly_exact", "Outputs without any rounding, N(0,1) in BF16, percent", "g",
             {"exact"}, rms.columns);
  const HadamardMatrix normal = normal_matrix(settings);
  HadamardMatrix narrow = normal;
  for (float& v : narrow.values) v = round_to_bf16(v);
  for (size_t i = 0; i < kSizeCount; ++i) {
    rms.at(0, i) = {.found = transform_error(normal, kHadamardSizes[i], settings).relative_rms,
                    .expected = kSpecRms[i]};
    exact.at(0, i) = {
        .found = 100 * transform_error(narrow, kHadamardSizes[i], settings).exact_share,
        .expected = kSpecExact[i]};
    progress.step();
  }
  return section_of("hadamard", "rounding", {rms, exact});
}

Report hadamard(const Settings& settings) {
  Progress progress(settings, static_cast<int64_t>(2 * (1 + kSizeCount) * format_cases().size() +
                                                   2 * kSizeCount + 1));
  return {.name = "hadamard",
          .title = title_of("hadamard"),
          .sections = {outlier_section(settings, progress),
                       hadamard_variance_section(settings, progress),
                       amax_section(settings, progress), rounding_section(settings, progress)}};
}

}  // namespace

extern const Study kHadamard;
const Study kHadamard{"hadamard", "outliers spread by the random Hadamard transform, g = 16 to 128",
                      hadamard};

}  // namespace ng::study
