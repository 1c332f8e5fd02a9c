// study communication against the specification's figures, and its wire against an independent
// oracle: tests/golden/fp8lm/reduce.
#include <gtest/gtest.h>

#include <cmath>

#include "study/communication_sections.h"
#include "study/samples.h"
#include "study/simulated_ranks.h"
#include "support/golden_file.h"

namespace ng::study {
namespace {

using Reduce = GradientRecipe::Reduce;
using Vectors = std::vector<std::vector<float>>;

const Grid& grid_of(const std::vector<Section>& sections, std::string_view name) {
  for (const Section& section : sections)
    for (const Grid& grid : section.grids)
      if (grid.name == name) return grid;
  throw std::runtime_error("no such grid");
}

// ---------------------------------------------------------------- simulated ranks

TEST(SimulatedWire, MakesTheMeansOfTheOracle) {
  const GoldenFile golden("fp8lm/reduce");
  size_t compared = 0;
  for (const auto& [name, p] : golden.cases().items()) {
    if (p.contains("skipped") || p["rounding"] != "nearest") continue;
    SCOPED_TRACE(name);
    const int64_t rows = p["rows"], cols = p["cols"];
    const std::vector<float> all = golden.floats(name + ".g");
    Vectors gradients;
    for (auto at = all.begin(); at != all.end(); at += rows * cols)
      gradients.emplace_back(at, at + rows * cols);
    SimulatedWire wire(shared_e4m3(p["scale"] == "pow2" ? ScaleKind::pow2 : ScaleKind::fp32), rows,
                       cols);
    const SentGradients sent =
        wire.send(gradients, {.mu = golden.floats(name + ".mu")[0], .k = p["k"]});
    EXPECT_EQ(sent.encode_scale, golden.floats(name + ".S")[0]);
    const SimulatedMean exact = wire.reduce(sent, Reduce::fp32),
                        ring = wire.reduce(sent, Reduce::wire);
    EXPECT_EQ(exact.mean, golden.floats(name + ".mean"));
    EXPECT_EQ(exact_mean(gradients), golden.doubles(name + ".mean_true"));
    EXPECT_EQ(ring.mean, golden.floats(name + ".wire.mean"));
    EXPECT_EQ(ring.largest, golden.integers(name + ".wire.saturated")[0]);
    EXPECT_EQ(ring.codes, rows * cols);
    int64_t saturated = 0;
    for (const int64_t of_rank : golden.integers(name + ".saturated")) saturated += of_rank;
    EXPECT_EQ(exact.largest, saturated);
    EXPECT_EQ(exact.codes, p["ranks"].get<int64_t>() * rows * cols);
    const float decode_scale = 1 / golden.floats(name + ".requant.encode_scale")[0];
    const std::vector<int64_t> codes = golden.integers(name + ".requant.codes");
    const std::vector<float> gathered = wire.gathered(exact.mean);
    for (size_t i = 0; i < codes.size(); ++i)
      ASSERT_EQ(gathered[i],
                decode(element_format("e4m3"), static_cast<uint32_t>(codes[i])) * decode_scale)
          << i;
    ++compared;
  }
  EXPECT_GE(compared, 9U);
}

// Four standard deviations of a correlation of 4,096 pairs, (1 - ρ²)/√n.
TEST(DrawnGradients, AreAsAlikeAsAsked) {
  constexpr int64_t kSize = 4096;
  for (const double rho : {0.0, 0.9}) {
    const GradientKind kind{.name = "", .correlation = rho};
    const Vectors four = drawn_gradients(kind, stream(3, 1), 4, kSize, {1});
    const Vectors two = drawn_gradients(kind, stream(3, 1), 2, kSize, {2});
    EXPECT_EQ(two, Vectors(four.begin(), four.begin() + 2));
    double product = 0, squares = 0;
    for (size_t i = 0; i < kSize; ++i) {
      product += static_cast<double>(four[0][i]) * four[3][i];
      squares += (four[0][i] * four[0][i] + four[3][i] * four[3][i]) / 2.0;
    }
    EXPECT_NEAR(product / squares, rho, 4 * (1 - rho * rho) / std::sqrt(kSize)) << rho;
  }
}

// ---------------------------------------------------------------- the specification's figures

// They are of one draw and have one decimal; ours are means of `draws`, whose standard errors give
// the deviation of a draw. Of the exact sum the specification has a range, 0.2 to either side.
TEST(CommunicationStudy, SnrIsThatOfTheSpecification) {
  const Settings settings{.share = 2, .threads = {available_cores()}};
  const auto draws = static_cast<double>(settings.part_of(4, 2));
  Progress progress(settings, communication_sum_steps(settings));
  const std::vector<Section> sections = communication_sum_sections(settings, progress);
  size_t compared = 0;
  for (const char* name : {"snr_independent_fp32", "snr_independent_pow2", "snr_correlated_fp32"}) {
    const Grid& grid = grid_of(sections, name);
    for (size_t r = 0; r < grid.rows.size(); ++r)
      for (size_t c = 0; c < grid.columns.size(); ++c) {
        const Value& value = grid.at(r, c);
        if (std::isnan(value.expected)) continue;
        const double range = value.expected == 31.7 ? 0.2 : 0;
        const double of_a_draw = value.error * std::sqrt(draws);
        EXPECT_NEAR(value.found, value.expected,
                    range + 0.05 + 4 * of_a_draw * std::sqrt(1 + 1 / draws))
            << name << ", " << grid.rows[r] << ", " << grid.columns[c];
        EXPECT_LT(of_a_draw, 1.5) << "nothing could fail";
        ++compared;
      }
  }
  EXPECT_EQ(compared, 19U);

  // What the page says of them.
  const Grid& lost = grid_of(sections, "underflow_wide_pow2");
  EXPECT_GT(lost.found("128", "pre-scaling"), 5 * lost.found("128", "exact sum"));
  const Grid& full = grid_of(sections, "saturation_correlated_fp32");
  EXPECT_GT(full.found("128", "post-scaling"), 80);
  EXPECT_EQ(full.found("128", "auto-scaling"), 0);
}

// s follows the step's own largest value, by 128 where gradients grow by 100, and μ by the rest.
// Where it turns is decided by the largest of some hundred steps' sums, known to a quarter of an
// octave (the window is 100). Ranks that become alike make sums √8 times as large: 1.5 octaves.
TEST(CommunicationStudy, MuFollowsSumsAndNotSizes) {
  const Settings settings{};
  Progress progress(settings, communication_scale_steps(settings));
  const std::vector<Section> sections = {communication_scale_section(settings, progress)};
  const Grid& parts = grid_of(sections, "mu_parts");
  for (const char* what : {"wire: smallest k", "wire: largest k", "exact sum: largest k"})
    EXPECT_NEAR(parts.found("100 times as large", what) - parts.found("independent", what),
                100 * std::log2(1.28), 25)
        << what;
  EXPECT_NEAR(parts.found("and ρ = 0.9", "wire: smallest k") -
                  parts.found("100 times as large", "wire: smallest k"),
              -150, 50);
  for (const char* part : {"independent", "100 times as large"}) {
    EXPECT_NEAR(parts.found(part, "exact sum: SNR, dB"), 31.7, 0.25);  // 31.5 to 31.9, as above
    EXPECT_NEAR(parts.found(part, "wire: SNR, dB"), 23.9, 0.25);       // auto-scaling of 8 ranks
  }
  // What takes the jump is s, 128 times smaller: 100 as a power of two.
  const Grid &scale = grid_of(sections, "encode_scale"), &mu = grid_of(sections, "mu");
  const auto s_at = [&](const char* step) {
    return scale.found(step, "wire") / std::exp2(mu.found(step, "wire"));
  };
  EXPECT_NEAR(s_at("399") / s_at("400"), 128, 128 * 1e-6);  // S and μ are FP32
}

TEST(CommunicationStudy, FormatsHaveTheErrorsOfTheirRounding) {
  const Settings settings{.threads = {available_cores()}};
  Progress progress(settings, communication_format_steps(settings));
  const std::vector<Section> sections = {communication_format_section(settings, progress)};
  const Grid& formats = grid_of(sections, "formats");
  const std::pair<const char*, double> bits[] = {{"BF16", 16},
                                                 {"E4M3, pow2 scale", 8},
                                                 {"MXFP8", 8.25},
                                                 {"NVFP4", 4.5},
                                                 {"MXFP4, stochastic", 4.25}};
  for (const auto& [name, each] : bits) EXPECT_EQ(formats.found(name, "bits per element"), each);
  // Three digits, and where a power of two lies: E4M3's error moves by 2 % over an octave.
  const Value& e4m3 = formats.at(1, 1);
  EXPECT_NEAR(e4m3.found, e4m3.expected, 0.025 * e4m3.expected);

  // Unbiased errors average out over ranks, 10·log10(64) dB from 2 to 128; the signal falls from
  // 0.95 to 0.9008. Each is known to 1/√(draws · elements / 2) = 1.6 %, 0.07 dB, at 2 ranks.
  const Grid& alike = grid_of(sections, "formats_by_ranks_correlated");
  const auto gain = [&](const char* format) {
    return alike.found("128", format) - alike.found("2", format);
  };
  const double unbiased = 10 * std::log10(64 * 0.9008 / 0.95);
  EXPECT_NEAR(gain("MXFP4 rceil, stochastic"), unbiased, 0.4);
  EXPECT_LT(gain("MXFP4, stochastic"), unbiased - 3);
  EXPECT_LT(gain("MXFP4"), unbiased - 6);
}

}  // namespace
}  // namespace ng::study
