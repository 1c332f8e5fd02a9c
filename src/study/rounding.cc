// study rounding: bias and variance of rounding to nearest, with dither and stochastically; the
// prescale that keeps MX blocks unbiased; and what that means for the gradient of a model.
// [formats.md §2.3, §3.6; recipes.md §8]
#include <algorithm>
#include <cmath>

#include "format/codec.h"
#include "numbers/narrow_matrix.h"
#include "study/mean.h"
#include "study/rounding_gradient.h"
#include "study/rounding_laws.h"
#include "study/samples.h"
#include "study/study.h"
#include "study/written.h"

namespace ng::study {
namespace {

constexpr int kRoundingBits[] = {8, 16, 32};
constexpr uint32_t kBlockStream = 128;

FloatGrid e2m1() { return grid_of(element_format("e2m1")); }

// ---------------------------------------------------------------- one number

const Names kLawNames = {"nearest", "dither", "stochastic, 8 bits", "stochastic, 16 bits",
                         "stochastic, 32 bits"};

std::vector<Rounded> laws_of(float x) {
  std::vector<Rounded> laws = {nearest_law(e2m1(), x), dithered_law(e2m1(), x)};
  for (const int bits : kRoundingBits) laws.push_back(stochastic_law(e2m1(), x, bits));
  return laws;
}

/// Bias and variance over E2M1's range, in units of the distance of the neighbours.
struct Curves {
  Grid bias, variance;
};

Curves curves_of(const Settings& settings, Progress& progress) {
  std::vector<double> x;
  for (int i = 0; i <= 300; ++i) x.push_back(i / 50.0);
  const Names rows = texts_of(x, "{:.2f}");
  const auto curve = [&](const char* name, const char* caption) {
    return Grid(name, caption, "x", rows, kLawNames, {.shown = false});
  };
  Curves curves{curve("bias_curve", "Bias E[Q(x)] - x on E2M1, in ulp"),
                curve("variance_curve", "Variance of Q(x) on E2M1, in ulp²")};
  parallel_for(settings.threads, std::ssize(x), [&](int64_t i, int) {
    const auto row = static_cast<size_t>(i);
    const auto value = static_cast<float>(x[row]);
    const std::vector<Rounded> laws = laws_of(value);
    for (size_t c = 0; c < laws.size(); ++c) {
      const double ulp = laws[c].ulp() > 0 ? laws[c].ulp() : 1;
      curves.bias.at(row, c).found = (laws[c].mean - value) / ulp;
      curves.variance.at(row, c).found = laws[c].variance / (ulp * ulp);
    }
  });
  progress.step();
  return curves;
}

/// E[Q(x)] at some places, exactly.
Grid mean_grid() {
  constexpr float kPlaces[] = {0.3f, 1.2f, 2.2f, 4.3f};
  Grid grid("mean", "E[Q(x)] on E2M1, over all random integers", "x", texts_of(kPlaces, "{:g}"),
            kLawNames, {.digits = 6});
  for (size_t r = 0; r < std::size(kPlaces); ++r) {
    const std::vector<Rounded> laws = laws_of(kPlaces[r]);
    for (size_t c = 0; c < laws.size(); ++c) grid.at(r, c).found = laws[c].mean;
  }
  grid.at(2, 1).expected = 2.175;
  grid.at(3, 1).expected = 4.20;
  return grid;
}

/// The mean and variance of draws made by the quantizer itself, beside the exact ones.
Grid drawn_grid(const Settings& settings, Progress& progress) {
  constexpr float kPlace = 2.2f;
  Grid grid("drawn", "Q(2.2) on E2M1 as the quantizer draws it", "random bits",
            texts_of(kRoundingBits), {"mean", "variance", "share rounded up"},
            {.expected_is = "exact", .digits = 5});
  const int64_t rows = settings.part_of(1024, 16);
  constexpr int64_t kValueCols = 1024;
  const std::vector<float> x(static_cast<size_t>(rows * kValueCols), kPlace);
  for (size_t i = 0; i < std::size(kRoundingBits); ++i) {
    Operand cast;
    cast.element = &element_format("e2m1");
    cast.rounding = Rounding::stochastic;
    cast.sr_bits = kRoundingBits[i];
    const RandomKey key{.seed = settings.seed, .purpose = Purpose::wgrad_grad};
    const NarrowMatrix narrow =
        quantize({x.data(), rows, kValueCols, kValueCols}, cast, {.key = key}, settings.threads);
    Mean mean;
    for (const float q : dequantize(narrow, settings.threads)) mean.add(q);
    const Rounded law = stochastic_law(e2m1(), kPlace, kRoundingBits[i]);
    const double up = (mean.mean() - law.low) / law.ulp();
    grid.at(i, 0) = mean.value(law.mean);
    grid.at(i, 1) = {mean.variance(), kNone, law.variance};
    grid.at(i, 2) = {up, mean.error() / law.ulp(), (law.mean - law.low) / law.ulp()};
    progress.step();
  }
  return grid;
}

/// Largest bias over a dense sweep of [2, 4), where an FP32 number has up to 22 bits to lose.
Grid worst_bias(const Settings& settings, Progress& progress) {
  Grid grid("worst_bias", "Most negative bias on [2, 4), in ulp", "", {"bias"},
            texts_of(kRoundingBits, "stochastic, {} bits"), {.digits = 3});
  const int64_t places = settings.part_of(1 << 17, 1 << 12);
  const int64_t stride = (1 << 23) / places;  // of the 2^23 numbers in [2, 4)
  for (size_t i = 0; i < std::size(kRoundingBits); ++i) {
    double worst = 0;
    for (int64_t n = 1; n <= places; ++n) {  // the last of each stride: its low bits are ones
      const float x = 2 + static_cast<float>(n * stride - 1) * 0x1p-22f;
      const Rounded law = stochastic_law(e2m1(), x, kRoundingBits[i]);
      if (law.ulp() > 0) worst = std::min(worst, (law.mean - x) / law.ulp());
    }
    grid.at(0, i).found = worst;
    progress.step();
  }
  grid.at(0, 0).expected = -.00390;
  return grid;
}

Section number_section(const Settings& settings, Progress& progress) {
  const Curves curves = curves_of(settings, progress);
  const Grid mean = mean_grid();
  const Grid drawn = drawn_grid(settings, progress);
  const Grid worst = worst_bias(settings, progress);
  const auto largest = [](const Grid& grid, size_t column) {
    double most = 0;
    for (size_t r = 0; r < grid.rows.size(); ++r)
      most = std::max(most, std::abs(grid.at(r, column).found));
    return most;
  };
  Section section =
      section_of("rounding", "number", {mean, drawn, worst, curves.bias, curves.variance},
                 {{"bias_nearest", largest(curves.bias, 0)},
                  {"bias_stochastic", largest(curves.bias, 3)},
                  {"variance", largest(curves.variance, 3)}});
  section.charts = {lines_of(curves.bias, "x", "bias, ulp"),
                    lines_of(curves.variance, "x", "variance, ulp²")};
  for (Chart& chart : section.charts) {
    chart.series.resize(4);  // 32 bits lie upon 16
    chart.series.erase(chart.series.begin() + 2);
    chart.x_ticks = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  }
  return section;
}

// ---------------------------------------------------------------- the prescale

/// Two blocks whose largest values meet: 3.9 and 3.8, both scaled to between 6 and 8; the rest is
/// small, and the last value of b makes a·b = 16.063.
struct BlockPair {
  std::vector<float> a, b;
};

constexpr double kProduct = 16.063;

BlockPair block_pair(const Settings& settings) {
  const auto block = [&](uint32_t number) {
    std::vector<float> values =
        samples(Distribution::uniform, stream(settings.seed, number), 32, {});
    for (float& v : values) v *= 0.5f;
    return values;
  };
  BlockPair pair{block(kBlockStream), block(kBlockStream + 1)};
  pair.a.front() = 3.9f;
  pair.b.front() = 3.8f;
  pair.a.back() = 2.0f;
  pair.b.back() = 0.0f;
  pair.b.back() = static_cast<float>((kProduct - dot(pair.a, pair.b)) / 2.0);
  return pair;
}

struct PrescaleCase {
  const char* name;
  Rounding rounding;
  ScaleRule rule;
  float prescale;
};
constexpr PrescaleCase kPrescaleCases[] = {
    {"nearest", Rounding::nearest, ScaleRule::floor, 1.0f},
    {"stochastic", Rounding::stochastic, ScaleRule::floor, 1.0f},
    {"stochastic, prescale 3/4", Rounding::stochastic, ScaleRule::floor, 0.75f},
    {"stochastic, rceil", Rounding::stochastic, ScaleRule::rceil, 1.0f},
};

Operand cast_of(const PrescaleCase& prescale) {
  Operand cast = operand_of("mxfp4");
  cast.rounding = prescale.rounding;
  cast.scale_rule = prescale.rule;
  cast.prescale = prescale.prescale;
  return cast;
}

/// Many rounded copies of one block.
std::vector<float> rounded_copies(const std::vector<float>& block, int64_t copies,
                                  const Operand& cast, const RandomKey& key, Threads threads) {
  std::vector<float> x;
  for (int64_t i = 0; i < copies; ++i) x.insert(x.end(), block.begin(), block.end());
  return dequantize(quantize({x.data(), copies, 32, 32}, cast, {.key = key}, threads), threads);
}

/// E[Q(x)] of every value of a block, by the laws of single values.
std::vector<float> exact_means(const std::vector<float>& block, const Operand& cast) {
  const NarrowMatrix scales = quantize({block.data(), 1, 32, 32}, cast, {}, {});
  const auto scale = static_cast<double>(scales.scales.front());
  std::vector<float> means;
  for (const float v : block) {
    const auto y = static_cast<float>(std::min(6.0, std::abs(v) * cast.prescale / scale));
    const Rounded law = cast.rounding == Rounding::nearest
                            ? nearest_law(e2m1(), y)
                            : stochastic_law(e2m1(), y, cast.sr_bits);
    means.push_back(static_cast<float>(std::copysign(law.mean * scale, v)));
  }
  return means;
}

Section prescale_section(const Settings& settings, Progress& progress) {
  Grid grid("prescale", "a·b of two MXFP4 blocks, exactly 16.063, after rounding both", "rounding",
            names_of(kPrescaleCases), {"mean of a·b", "relative bias, percent"},
            {.expected_is = "exact", .digits = 5});
  const BlockPair pair = block_pair(settings);
  const double truth = dot(pair.a, pair.b);
  const int64_t copies = settings.part_of(1 << 16, 1 << 10);
  for (size_t r = 0; r < std::size(kPrescaleCases); ++r) {
    const Operand cast = cast_of(kPrescaleCases[r]);
    const double undo = 1 / (static_cast<double>(cast.prescale) * cast.prescale);
    const RandomKey left{.seed = settings.seed, .purpose = Purpose::wgrad_grad};
    const RandomKey right{.seed = settings.seed, .purpose = Purpose::wgrad_input};
    const std::vector<float> a = rounded_copies(pair.a, copies, cast, left, settings.threads);
    const std::vector<float> b = rounded_copies(pair.b, copies, cast, right, settings.threads);
    Mean product;
    for (size_t i = 0; i < a.size(); i += 32)
      product.add(undo * dot(std::span(a).subspan(i, 32), std::span(b).subspan(i, 32)));
    const double exact = undo * dot(exact_means(pair.a, cast), exact_means(pair.b, cast));
    grid.at(r, 0) = product.value(exact);
    grid.at(r, 1) = {100 * (product.mean() / truth - 1), 100 * product.error() / truth, kNone};
    progress.step();
  }
  return section_of("rounding", "prescale", {grid}, {{"truth", truth}, {"copies", copies}});
}

Report rounding(const Settings& settings) {
  Progress progress(settings, 1 + 2 * std::ssize(kRoundingBits) + std::ssize(kPrescaleCases) +
                                  gradient_steps(settings));
  return {.name = "rounding",
          .title = title_of("rounding"),
          .sections = {number_section(settings, progress), prescale_section(settings, progress),
                       gradient_section(settings, progress)}};
}

}  // namespace

extern const Study kRounding;
const Study kRounding{"rounding", "bias and variance of nearest, dither and stochastic rounding",
                      rounding};

}  // namespace ng::study
