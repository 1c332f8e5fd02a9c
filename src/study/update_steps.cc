#include "study/update_steps.h"

#include <cmath>

#include "base/error.h"
#include "io/tensor_files.h"
#include "study/mean.h"
#include "study/samples.h"

namespace ng::study {
namespace {

constexpr uint32_t kWeightStream = 256, kDirectionStream = 257;  // of samples.h
constexpr uint32_t kTensor = 1;                                  // of the draws of rounding

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
  const io::Safetensors file(tensor.file);
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
  subject.w = drawn(kWeightStream);
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
      if (way.rule == UpdateRule::precision_aware)
        result.alpha.push_back(weight.report().alpha / lr);
    }
    progress.step();
  }
  return result;
}

}  // namespace ng::study
