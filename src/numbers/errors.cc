#include "numbers/errors.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

namespace ng {
namespace {

constexpr size_t kLanes = 8;
constexpr int64_t kChunkValues = 1 << 16;  // summed by one thread, then in order

/// Interleaved sums that a compiler makes vectors of; added up in lane order.
struct Lanes {
  std::array<double, kLanes> error_squares{}, squares{}, errors{}, magnitudes{};
  std::array<double, kLanes> max_abs{}, max_relative{};
  std::array<uint64_t, kLanes> finite{}, nonzero{}, flushed{};

  template <class X, class Q>
  void add(size_t lane, X value, Q narrow) {
    const bool is_finite = std::fabs(value) <= std::numeric_limits<X>::max();
    const double x = is_finite ? static_cast<double>(value) : 0.0;
    const double q = is_finite ? static_cast<double>(narrow) : 0.0;
    const double e = q - x, a = std::fabs(x), distance = std::fabs(e);
    error_squares[lane] += e * e;
    squares[lane] += x * x;
    errors[lane] += e;
    magnitudes[lane] += a;
    max_abs[lane] = distance > max_abs[lane] ? distance : max_abs[lane];
    const double relative = a > 0 ? distance / a : 0.0;
    max_relative[lane] = relative > max_relative[lane] ? relative : max_relative[lane];
    finite[lane] += is_finite ? 1 : 0;
    nonzero[lane] += a > 0 ? 1 : 0;
    flushed[lane] += a > 0 && q == 0 ? 1 : 0;
  }
};

template <class Value>
Value sum_of(const std::array<Value, kLanes>& lanes) {
  Value sum = 0;
  for (const Value lane : lanes) sum += lane;
  return sum;
}

double max_of(const std::array<double, kLanes>& lanes) {
  return *std::max_element(lanes.begin(), lanes.end());
}

}  // namespace

template <class X, class Q>
void ErrorSums::add_values(std::span<const X> x, std::span<const Q> q) {
  NG_CHECK(x.size() == q.size(), x.size(), q.size());
  Lanes lanes;
  size_t i = 0;
  for (; i + kLanes <= x.size(); i += kLanes)
    for (size_t lane = 0; lane < kLanes; ++lane) lanes.add(lane, x[i + lane], q[i + lane]);
  for (size_t lane = 0; i < x.size(); ++i, ++lane) lanes.add(lane, x[i], q[i]);
  values_ += sum_of(lanes.finite);
  nonzero_ += sum_of(lanes.nonzero);
  flushed_ += sum_of(lanes.flushed);
  error_squares_ += sum_of(lanes.error_squares);
  squares_ += sum_of(lanes.squares);
  errors_ += sum_of(lanes.errors);
  magnitudes_ += sum_of(lanes.magnitudes);
  max_abs_ = std::max(max_abs_, max_of(lanes.max_abs));
  max_relative_ = std::max(max_relative_, max_of(lanes.max_relative));
}

void ErrorSums::add(std::span<const float> x, std::span<const float> q) { add_values(x, q); }
void ErrorSums::add(std::span<const double> x, std::span<const float> q) { add_values(x, q); }
void ErrorSums::add(std::span<const double> x, std::span<const double> q) { add_values(x, q); }

void ErrorSums::add(const ErrorSums& later) {
  values_ += later.values_;
  nonzero_ += later.nonzero_;
  flushed_ += later.flushed_;
  saturated_ += later.saturated_;
  error_squares_ += later.error_squares_;
  squares_ += later.squares_;
  errors_ += later.errors_;
  magnitudes_ += later.magnitudes_;
  max_abs_ = std::max(max_abs_, later.max_abs_);
  max_relative_ = std::max(max_relative_, later.max_relative_);
}

ErrorMetrics ErrorSums::metrics() const {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  const auto share = [](uint64_t part, uint64_t whole) {
    return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
  };
  ErrorMetrics m;
  m.values = values_;
  m.mse = values_ == 0 ? 0.0 : error_squares_ / static_cast<double>(values_);
  m.relative_mse = squares_ == 0 ? kNaN : error_squares_ / squares_;
  m.sqnr_db = -10 * std::log10(m.relative_mse);
  m.max_abs = std::isnan(error_squares_) ? kNaN : max_abs_;
  m.max_relative = std::isnan(error_squares_) ? kNaN : max_relative_;
  m.underflow = share(flushed_, nonzero_);
  m.saturation = share(saturated_, values_);
  m.bias = magnitudes_ == 0 ? kNaN : errors_ / magnitudes_;
  return m;
}

namespace {

/// A row as rows of a chunk each, and the rest.
ErrorSums error_sums_of_row(const float* x, const float* q, int64_t count, Threads threads) {
  const int64_t rows = count / kChunkValues, whole = rows * kChunkValues;
  ErrorSums sums = error_sums({x, rows, kChunkValues, kChunkValues},
                              {q, rows, kChunkValues, kChunkValues}, threads);
  const auto rest = static_cast<size_t>(count - whole);
  sums.add(std::span(x + whole, rest), std::span(q + whole, rest));
  return sums;
}

}  // namespace

ErrorSums error_sums(Rows<const float> x, Rows<const float> q, Threads threads) {
  NG_CHECK(x.rows == q.rows && x.cols == q.cols, x.rows, q.rows, x.cols, q.cols);
  if (x.size() == 0) return {};
  if (x.rows == 1 && x.cols > kChunkValues)
    return error_sums_of_row(x.data, q.data, x.cols, threads);
  const int64_t rows = std::max<int64_t>(kChunkValues / x.cols, 1);
  std::vector<ErrorSums> chunks(static_cast<size_t>((x.rows + rows - 1) / rows));
  parallel_for(threads, static_cast<int64_t>(chunks.size()), [&](int64_t chunk, int) {
    const auto count = static_cast<size_t>(x.cols);
    for (int64_t r = chunk * rows; r < std::min((chunk + 1) * rows, x.rows); ++r)
      chunks[static_cast<size_t>(chunk)].add({x.row(r), count},
                                             std::span<const float>(q.row(r), count));
  });
  ErrorSums sum;
  for (const ErrorSums& chunk : chunks) sum.add(chunk);
  return sum;
}

}  // namespace ng
