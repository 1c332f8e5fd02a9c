// One step of every rule against source 000's table from runs of others: tests/golden/update.
#include "study/step_metrics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/json.h"
#include "io/safetensors.h"
#include "study/mean.h"
#include "study/moved_weight.h"
#include "study/samples.h"

namespace ng::study {
namespace {

constexpr int64_t kRows = 512, kCols = 1024;
constexpr int64_t kSize = kRows * kCols;
/// Of a figure that fewer weights decide, only the order of magnitude means anything.
/// [tests/golden/README.md]
constexpr double kLeastMoved = 1000;

constexpr const char* kColumns[] = {"rho",    "pi",        "eps",         "changed",
                                    "cosine", "lost_norm", "median_ratio"};
std::vector<double> numbers_of(const StepMetrics& m) {
  return {m.rho, m.pi, m.eps, m.changed, m.cosine, m.lost_norm, m.median_ratio};
}

/// [draw][learning rate][column]
class GoldenTable {
 public:
  explicit GoldenTable(const std::string& name) {
    static const io::Safetensors kFile(NG_SOURCE_DIR "/tests/golden/update/metrics.safetensors");
    rates_ = io::to_floats(kFile.at("lr"));
    const io::SafetensorsEntry& entry = kFile.at(name);
    draws_ = static_cast<size_t>(entry.shape[0]);
    values_ = io::to_floats(entry);
  }
  [[nodiscard]] const std::vector<float>& rates() const { return rates_; }
  [[nodiscard]] Mean of(size_t rate, size_t column) const {
    Mean mean;
    for (size_t draw = 0; draw < draws_; ++draw)
      mean.add(values_[(draw * rates_.size() + rate) * std::size(kColumns) + column]);
    return mean;
  }

 private:
  std::vector<float> rates_, values_;
  size_t draws_ = 0;
};

struct Data {
  std::vector<float> normal = samples(Distribution::normal, stream(11, 1), kSize, {});
  std::vector<float> other = samples(Distribution::normal, stream(11, 2), kSize, {});
};
const Data& data() {
  static const Data kData;
  return kData;
}

constexpr const char* kFiles[] = {"e4m3", "e4m3_pow2", "fp16", "bf16"};  // as weight_formats()

/// The step of a rule at a learning rate, and what the exact expectation of `stochastic` is.
struct Found {
  StepMetrics drawn, expected;
};
Found found_by(MovedWeight& weight, const UpdateWay& way, std::span<const float> u, float lr,
               uint32_t step) {
  weight.put(data().normal);
  const std::vector<float> w = weight.values();
  const std::vector<double> before = weight.whole();
  weight.step(u, lr, {.seed = 3, .tensor = 1, .step = step});
  Found found{.drawn = metrics_of({before, weight.whole(), u, lr}, {1}), .expected = {}};
  if (way.rule == UpdateRule::stochastic)
    found.expected = expected_metrics(w, u, lr, weight.cast(), weight.encode_scale(), {1});
  return found;
}

/// 3 % and 4 standard deviations [tests/golden/README.md]: those of a draw as the file's own draws
/// scatter, √2 larger for half of the values. Two or three draws can lie together by chance, so at
/// least what so many moved weights scatter by, 1/√n each way.
double tolerance_of(const Mean& mean, double moved) {
  const double scatter = std::sqrt(2 * mean.variance());
  return 0.03 * std::abs(mean.mean()) +
         4 * std::max(scatter, std::abs(mean.mean()) / std::sqrt(moved));
}

void expect_rows(const std::string& name, const std::vector<StepMetrics>& rows) {
  const GoldenTable golden(name);
  size_t compared = 0;
  for (size_t rate = 0; rate < rows.size(); ++rate) {
    const double moved = golden.of(rate, 3).mean() * kSize;
    for (const size_t column : {0, 1, 2, 3, 4}) {
      const double found = numbers_of(rows[rate])[column];
      const Mean mean = golden.of(rate, column);
      if (moved >= kLeastMoved) {
        EXPECT_NEAR(found, mean.mean(), tolerance_of(mean, moved))
            << name << " " << kColumns[column] << " at " << golden.rates()[rate];
        ++compared;
      }
    }
    // In two or three times as many weights nobody moved: the chance that six do here is 1e-4.
    if (moved == 0) {
      EXPECT_LE(rows[rate].changed * kSize, 6) << name << " at " << golden.rates()[rate];
    }
  }
  EXPECT_GE(compared, 5u) << name;
}

/// Every learning rate of the file by one rule.
struct Rows {
  std::vector<StepMetrics> drawn, expected;
};
Rows rows_of(size_t format, const char* way, std::span<const float> u,
             const std::vector<float>& rates) {
  MovedWeight weight(weight_formats()[format], update_way(way), kRows, kCols, {1});
  Rows rows;
  for (const float lr : rates) {
    const auto step = static_cast<uint32_t>(rows.drawn.size());
    const Found found = found_by(weight, update_way(way), u, lr, step);
    rows.drawn.push_back(found.drawn);
    rows.expected.push_back(found.expected);
  }
  return rows;
}

TEST(StepMetrics, AreThoseOfSource000) {
  for (size_t f = 0; f < weight_formats().size(); ++f)
    for (const char* way : {"nearest", "precision_aware", "stochastic"}) {
      const std::string name = fmt::format("{}.independent.{}", kFiles[f], way);
      const GoldenTable golden(name);
      const Rows rows = rows_of(f, way, data().other, golden.rates());
      expect_rows(name, rows.drawn);
      if (std::string_view(way) == "stochastic") expect_rows(name + "_mean", rows.expected);
    }
}

// Source 000 drew weights and update from one key.
TEST(StepMetrics, AreThoseOfSource000WithOneKey) {
  for (const size_t f : {size_t{0}, size_t{2}, size_t{3}})
    for (const char* way : {"nearest", "precision_aware", "stochastic"}) {
      const std::string name = fmt::format("{}.same_key.{}", kFiles[f], way);
      const GoldenTable golden(name);
      expect_rows(name, rows_of(f, way, data().normal, golden.rates()).drawn);
    }
}

// With u = w all thresholds of a binade coincide. [errata-2, 24]
TEST(StepMetrics, AreThoseOfWeightsMovedAlongThemselves) {
  for (size_t f = 0; f < weight_formats().size(); ++f)
    for (const char* way : {"nearest", "precision_aware", "stochastic"}) {
      MovedWeight weight(weight_formats()[f], update_way(way), kRows, kCols, {1});
      weight.put(data().normal);
      const std::string name = fmt::format("{}.equal.{}", kFiles[f], way);
      const GoldenTable golden(name);
      const Rows rows = rows_of(f, way, weight.values(), golden.rates());
      expect_rows(name, rows.drawn);
      if (std::string_view(way) == "stochastic") expect_rows(name + "_mean", rows.expected);
    }
}

// What the backend counts is what the values say.
TEST(StepMetrics, AgreeWithTheReportOfTheUpdate) {
  for (const WeightFormat& format : weight_formats())
    for (const UpdateWay& way : update_ways()) {
      MovedWeight weight(format, way, kRows, kCols, {2});
      weight.put(data().normal);
      const std::vector<float> w = weight.values();
      weight.step(data().other, 1e-2f, {.seed = 3, .tensor = 1});
      const std::vector<float> moved = weight.values();
      const std::vector<double> before(w.begin(), w.end()), after(moved.begin(), moved.end());
      const StepMetrics m = metrics_of({before, after, data().other, 1e-2f}, {2});
      const UpdateReport report = weight.report();
      SCOPED_TRACE(fmt::format("{} {}", format.name, way.name));
      EXPECT_NEAR(std::sqrt(report.update_squares / report.target_squares), m.rho, 1e-6 * m.rho);
      EXPECT_NEAR(report.product / report.target_squares, m.pi, 1e-6 * m.pi);
      EXPECT_EQ(static_cast<double>(report.changed) / kSize, m.changed);
    }
}

// The carry keeps what rounding drops: half an ulp of the last bit of w and c together, of a step
// of 1 % that is far larger.
TEST(StepMetrics, CarriesMakeAStepWhole) {
  for (const WeightFormat& format : weight_formats())
    for (const char* way : {"kahan", "residual 8"}) {
      MovedWeight weight(format, update_way(way), kRows, kCols, {2});
      weight.put(data().normal);
      const std::vector<double> before = weight.whole();
      weight.step(data().other, 1e-2f, {.seed = 3, .tensor = 1});
      const StepMetrics m = metrics_of({before, weight.whole(), data().other, 1e-2f}, {2});
      EXPECT_NEAR(m.rho, 1, 2e-3) << format.name << " " << way;
      EXPECT_NEAR(m.pi, 1, 2e-3) << format.name << " " << way;
      EXPECT_LT(m.eps, 0.02) << format.name << " " << way;
    }
}

// By hand: Δ* = {2, -4, 6}, Δ = {2, 0, 3}.
TEST(StepMetrics, AreWhatTheirDefinitionsSay) {
  const std::vector<double> before = {1, 1, 1}, after = {3, 1, 4};
  const std::vector<float> u = {1, -2, 3};
  const StepMetrics m = metrics_of({before, after, u, 2}, {1});
  EXPECT_DOUBLE_EQ(m.rho, std::sqrt(13.0 / 56));
  EXPECT_DOUBLE_EQ(m.pi, 22.0 / 56);
  EXPECT_DOUBLE_EQ(m.eps, 7.0 / 12);
  EXPECT_DOUBLE_EQ(m.changed, 2.0 / 3);
  EXPECT_DOUBLE_EQ(m.cosine, 22 / std::sqrt(13.0 * 56));
  EXPECT_DOUBLE_EQ(m.lost_norm, std::sqrt(56.0) - std::sqrt(13.0));
  EXPECT_DOUBLE_EQ(m.median_ratio, -1);
}

}  // namespace
}  // namespace ng::study
