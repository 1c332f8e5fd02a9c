#include "backend/ref/elementwise.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "backend/ref/number.h"
#include "math/normal.h"

namespace ng::ref {
namespace {

constexpr int64_t kChunk = 4096;
constexpr int64_t kLanes = 16;

double square_of(double x) { return x * x; }
double itself(double x) { return x; }

template <class Term>
double sum_of_chunk(ConstView x, int64_t chunk, Term term) {
  std::array<double, kLanes> lanes{};
  const int64_t end = std::min(x.size(), (chunk + 1) * kChunk);
  for (int64_t i = chunk * kChunk; i < end; ++i)
    lanes[static_cast<size_t>(i % kLanes)] += term(x.row(i / x.cols)[i % x.cols]);
  for (size_t step = kLanes / 2; step > 0; step /= 2)
    for (size_t lane = 0; lane < step; ++lane) lanes[lane] += lanes[lane + step];
  return lanes[0];
}

// Pairwise by index, an odd last one passing up: the left half is the largest power of two.
template <class Term>
double sum_of_chunks(ConstView x, int64_t first, int64_t count, Term term) {
  if (count == 1) return sum_of_chunk(x, first, term);
  const auto left = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(count - 1)));
  return sum_of_chunks(x, first, left, term) + sum_of_chunks(x, first + left, count - left, term);
}

template <class Term>
double tree_sum(ConstView x, Term term) {
  if (x.size() == 0) return 0;
  return sum_of_chunks(x, 0, (x.size() + kChunk - 1) / kChunk, term);
}

}  // namespace

void fill(View x, float value) {
  for (int64_t t = 0; t < x.rows; ++t) std::fill_n(x.row(t), x.cols, value);
}

void copy(View y, ConstView x) {
  NG_CHECK(same_shape(y, x), y.rows, y.cols, x.rows, x.cols);
  for (int64_t t = 0; t < x.rows; ++t) std::copy_n(x.row(t), x.cols, y.row(t));
}

void add(View y, ConstView a, ConstView b, Compute compute) {
  NG_CHECK(same_shape(y, a) && same_shape(y, b), y.rows, y.cols, a.rows, a.cols, b.rows, b.cols);
  for (int64_t t = 0; t < y.rows; ++t)
    for (int64_t c = 0; c < y.cols; ++c)
      y.row(t)[c] = out(in(a.row(t)[c], compute) + in(b.row(t)[c], compute), compute);
}

void add_column_sums(float* sum, ConstView x) {
  for (int64_t c = 0; c < x.cols; ++c) {
    double total = 0;
    for (int64_t t = 0; t < x.rows; ++t) total += x.row(t)[c];
    sum[c] += static_cast<float>(total);
  }
}

void add_sum(double* sum, ConstView x) { *sum += tree_sum(x, itself); }
void add_sum_of_squares(double* sum, ConstView x) { *sum += tree_sum(x, square_of); }

void add_nonfinite(uint64_t* count, ConstView x) {
  for (int64_t t = 0; t < x.rows; ++t)
    for (int64_t c = 0; c < x.cols; ++c) *count += std::isfinite(x.row(t)[c]) ? 0 : 1;
}

void fill_normal(View x, float deviation, const RandomKey& key) {
  for (int64_t t = 0; t < x.rows; ++t)
    for (int64_t c = 0; c < x.cols; ++c)
      x.row(t)[c] = math::normal(key, static_cast<uint64_t>(t * x.cols + c), deviation);
}

}  // namespace ng::ref
