#include "study/update_steps.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "base/error.h"
#include "io/hf/coded_file.h"
#include "io/tensor_files.h"
#include "study/mean.h"
#include "study/samples.h"
#include "study/written.h"

namespace ng::study {
namespace {

constexpr uint32_t kStepWeightStream = 256, kDirectionStream = 257;  // of samples.h
constexpr uint32_t kTensor = 1;                                      // of the draws of rounding

/// A tensor of a file, its leading dimensions as rows.
struct FileMatrix {
  int64_t rows = 0, cols = 0;
  std::vector<float> values;
};
FileMatrix matrix_of(const io::Safetensors& file, const std::string& name) {
  const io::SafetensorsEntry& entry = file.at(name);
  const auto refuse = [&](const std::string& problem, const char* remedy) {
    throw Error({.place = file.path(), .key = name, .problem = problem, .remedy = remedy});
  };
  if (!io::is_float(entry)) refuse("dtype " + entry.dtype, "a tensor of floating-point values");
  if (entry.shape.empty() || entry.elements() == 0)
    refuse("has no values", "a matrix that has some");
  FileMatrix matrix{.cols = entry.shape.back(), .values = io::to_floats(entry)};
  matrix.rows = entry.elements() / matrix.cols;
  const double squares = sum_of_squares(matrix.values);
  if (!std::isfinite(squares)) refuse("holds NaN or infinite values", "finite ones");
  if (squares == 0) refuse("is zero everywhere", "a tensor with a direction");
  return matrix;
}

UpdateSubject file_subject(const Settings& settings) {
  const TensorSubject& tensor = settings.tensor;
  const io::Safetensors file = io::open_decoded(tensor.file);
  FileMatrix w = matrix_of(file, tensor.name);
  UpdateSubject subject{.weights = tensor.name,
                        .direction = "N(0,1)",
                        .rows = w.rows,
                        .cols = w.cols,
                        .w = std::move(w.values),
                        .u = {},
                        .is_random = false};
  if (tensor.direction.empty()) {
    subject.u = samples(Distribution::normal, stream(settings.seed, kDirectionStream),
                        subject.rows * subject.cols, settings.threads);
    return subject;
  }
  FileMatrix u = matrix_of(file, tensor.direction);
  if (u.rows != w.rows || u.cols != w.cols)
    throw Error({.place = file.path(),
                 .key = tensor.direction,
                 .problem = fmt::format("is ({}, {})", u.rows, u.cols),
                 .remedy = fmt::format("({}, {}) as {}", w.rows, w.cols, tensor.name)});
  subject.direction = tensor.direction;
  subject.u = std::move(u.values);
  return subject;
}

}  // namespace

UpdateSubject update_subject(const Settings& settings) {
  if (!settings.tensor.file.empty()) return file_subject(settings);
  UpdateSubject subject{.weights = "N(0,1)",
                        .direction = "N(0,1)",
                        .rows = settings.part_of(1024, 16),
                        .cols = 1024,
                        .w = {},
                        .u = {}};
  const auto drawn = [&](uint32_t number) {
    return samples(Distribution::normal, stream(settings.seed, number), subject.rows * subject.cols,
                   settings.threads);
  };
  subject.w = drawn(kStepWeightStream);
  subject.u = drawn(kDirectionStream);
  return subject;
}

Names update_rate_names() { return texts_of(integers(1, std::size(kUpdateRates)), "1e-{}"); }

OneStep one_step(const UpdateSubject& subject, const WeightFormat& format, DirectionKind kind,
                 const Settings& settings, Progress& progress) {
  OneStep result;
  MovedWeight start(format, update_way("nearest"), subject.rows, subject.cols, settings.threads);
  start.put(subject.w);
  const std::vector<float> w = start.values();
  const std::vector<float>& u = kind == DirectionKind::equal       ? w
                                : kind == DirectionKind::unrounded ? subject.w
                                                                   : subject.u;
  const std::vector<double> before(w.begin(), w.end());
  for (const UpdateWay& way : update_ways()) {
    MovedWeight weight(format, way, subject.rows, subject.cols, settings.threads);
    std::vector<StepMetrics>& found = result.found.emplace_back();
    for (const float lr : kUpdateRates) {
      weight.put(w);
      weight.step(
          u, lr,
          {.seed = settings.seed, .tensor = kTensor, .step = static_cast<uint32_t>(found.size())});
      found.push_back(metrics_of({before, weight.whole(), u, lr}, settings.threads));
      if (way.rule == UpdateRule::stochastic)
        result.expected.push_back(
            expected_metrics(w, u, lr, weight.cast(), weight.encode_scale(), settings.threads));
      if (way.rule == UpdateRule::precision_aware && way.search == StepSearch::norms)
        result.alpha.push_back(weight.report().alpha / lr);
    }
    progress.step();
  }
  return result;
}

// ---------------------------------------------------------------- 200 steps along a fixed
// direction with noise: what becomes of a weight under each rule. [recipes.md §5, "200 steps"]

namespace {

constexpr uint32_t kStepNoiseStream = 258;
constexpr float kNoise = 3;         // standard deviations of the direction's size
constexpr int64_t kMostRows = 256;  // a quarter of the table's matrix fixes three digits

/// A row of the table.
struct Trajectory {
  size_t format;  ///< in weight_formats()
  const char* name;
  float lr;
};
constexpr Trajectory kTrajectories[] = {{0, "E4M3, lr 1e-3", 1e-3f},
                                        {1, "E4M3, pow2 scale, lr 1e-3", 1e-3f},
                                        {2, "FP16, lr 1e-5", 1e-5f},
                                        {3, "BF16, lr 1e-4", 1e-4f}};

/// Every way of one format, all moved along the same directions.
class Racers {
 public:
  Racers(const Trajectory& trajectory, const UpdateSubject& subject, int64_t rows, Threads threads)
      : lr_(trajectory.lr), threads_(threads), sum_(static_cast<size_t>(rows * subject.cols)) {
    const WeightFormat& format = weight_formats()[trajectory.format];
    const std::span<const float> w = std::span(subject.w).first(sum_.size());
    for (const UpdateWay& way : update_ways()) {
      weights_.push_back(std::make_unique<MovedWeight>(format, way, rows, subject.cols, threads));
      weights_.back()->put(weights_.size() == 1 ? w : std::span<const float>(start_));
      if (weights_.size() == 1) start_ = weights_.front()->values();
    }
  }
  void step(std::span<const float> u, const RandomKey& key) {
    for (const auto& weight : weights_) weight->step(u, lr_, key);
    for (size_t i = 0; i < u.size(); ++i) sum_[i] += static_cast<double>(lr_) * u[i];
  }

  struct End {
    double error = 0, projection = 0, error_with_carry = 0;
  };
  [[nodiscard]] std::vector<End> ends() const {
    std::vector<End> all;
    for (const auto& weight : weights_) {
      const std::vector<float> w = weight->values();
      const std::vector<double> whole = weight->whole();
      double error = 0, carried = 0, product = 0, wanted = 0;
      for (size_t i = 0; i < sum_.size(); ++i) {
        const double moved = static_cast<double>(w[i]) - start_[i];
        error += (moved - sum_[i]) * (moved - sum_[i]);
        carried += (whole[i] - start_[i] - sum_[i]) * (whole[i] - start_[i] - sum_[i]);
        product += moved * sum_[i];
        wanted += sum_[i] * sum_[i];
      }
      all.push_back({std::sqrt(error / wanted), product / wanted, std::sqrt(carried / wanted)});
    }
    return all;
  }

 private:
  float lr_;
  Threads threads_;
  std::vector<double> sum_;  // what was asked for
  std::vector<float> start_;
  std::vector<std::unique_ptr<MovedWeight>> weights_;
};

/// The specification's ends: E4M3 and BF16, by way. Those of residual 4 come from 768 weights,
/// fewer than fix them. [recipes.md §5; errata-2, 26]
struct SpecifiedEnd {
  size_t row;
  const char* way;
  double error, projection;
};
constexpr SpecifiedEnd kSpecifiedEnds[] = {
    {1, "nearest", .94, kNone}, {1, "stochastic", .89, kNone},  {1, "precision_aware", .87, kNone},
    {1, "kahan", .13, kNone},   {1, "residual 8", .13, kNone},  {1, "residual 4", .21, kNone},
    {3, "nearest", .89, .18},   {3, "stochastic", .70, 1.00},   {3, "precision_aware", .84, .47},
    {3, "kahan", .081, kNone},  {3, "residual 8", .081, kNone}, {3, "residual 4", .11, kNone}};

size_t column_of(std::string_view way) {
  return static_cast<size_t>(&update_way(way) - update_ways().data());
}

/// u_t = d + 3σ·n_t of every step, one after another.
template <class Use>
void for_directions(std::span<const float> d, const Settings& settings, const Use& use) {
  const auto noise = static_cast<float>(kNoise * root_mean_square(d));
  for (uint32_t t = 0; t < kTrajectorySteps; ++t) {
    RandomKey key = stream(settings.seed, kStepNoiseStream);
    key.step = t;
    std::vector<float> u = samples(Distribution::normal, key, std::ssize(d), settings.threads);
    for (size_t i = 0; i < u.size(); ++i) u[i] = d[i] + noise * u[i];
    use(t, std::span<const float>(u));
  }
}

}  // namespace

Section trajectory_section(const UpdateSubject& subject, const Settings& settings,
                           Progress& progress) {
  const int64_t rows = std::min(subject.rows, settings.part_of(kMostRows, 4));
  std::vector<std::unique_ptr<Racers>> racers;
  for (const Trajectory& trajectory : kTrajectories)
    racers.push_back(std::make_unique<Racers>(trajectory, subject, rows, settings.threads));
  const auto d = std::span(subject.u).first(static_cast<size_t>(rows * subject.cols));
  for_directions(d, settings, [&](uint32_t t, std::span<const float> u) {
    for (const auto& racer : racers)
      racer->step(u, {.seed = settings.seed, .tensor = 2, .step = t});
    progress.step();
  });
  std::vector<std::vector<Racers::End>> ends;
  for (const auto& racer : racers) ends.push_back(racer->ends());
  const auto grid_of = [&](const char* name, const char* caption, double Racers::End::*of) {
    return Grid(name, caption, "format, learning rate", names_of(kTrajectories),
                names_of(update_ways()), {.digits = 3})
        .filled([&](size_t r, size_t c) { return ends[r][c].*of; });
  };
  Grid error = grid_of("end_error", "Error of the weight after 200 steps over what was asked for",
                       &Racers::End::error);
  Grid projection =
      grid_of("end_projection", "Its projection on what was asked for", &Racers::End::projection);
  const Grid carried = grid_of("end_error_with_carry", "The error of weight and carry together",
                               &Racers::End::error_with_carry);
  if (subject.is_random)
    for (const SpecifiedEnd& end : kSpecifiedEnds) {
      error.at(end.row, column_of(end.way)).expected = end.error;
      projection.at(end.row, column_of(end.way)).expected = end.projection;
    }
  Section section = section_of("update", "trajectory", {error, projection, carried},
                               {{"steps", kTrajectorySteps}});
  if (std::any_of(error.values.begin(), error.values.end(),
                  [](const Value& value) { return std::isfinite(value.found); })) {
    Chart chart = bars_of(error, "error / distance");  // else the sums overflowed
    // It goes a hundred times too far: beside it all others would be 0.
    std::erase_if(chart.series, [](const Series& way) { return way.name == kAsPrinted; });
    section.charts.push_back(std::move(chart));
  }
  return section;
}

}  // namespace ng::study
