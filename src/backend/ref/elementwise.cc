#include "backend/ref/elementwise.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "backend/host_step.h"
#include "backend/ref/number.h"
#include "math/normal.h"
#include "math/round.h"

namespace ng::ref {
namespace {

constexpr int64_t kChunk = 4096;
constexpr int64_t kLanes = 16;

double square_of(double x) { return x * x; }
double itself(double x) { return x; }

template <class Term>
double sum_of_chunk(const Reader& x, int64_t chunk, Term term) {
  std::array<double, kLanes> lanes{};
  const int64_t end = std::min(x.rows() * x.cols(), (chunk + 1) * kChunk);
  for (int64_t i = chunk * kChunk; i < end; ++i)
    lanes[static_cast<size_t>(i % kLanes)] += term(x(i / x.cols(), i % x.cols()));
  for (size_t step = kLanes / 2; step > 0; step /= 2)
    for (size_t lane = 0; lane < step; ++lane) lanes[lane] += lanes[lane + step];
  return lanes[0];
}

// Pairwise by index, an odd last one passing up: the left half is the largest power of two.
template <class Term>
double sum_of_chunks(const Reader& x, int64_t first, int64_t count, Term term) {
  if (count == 1) return sum_of_chunk(x, first, term);
  const auto left = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(count - 1)));
  return sum_of_chunks(x, first, left, term) + sum_of_chunks(x, first + left, count - left, term);
}

template <class Term>
double tree_sum(const Reader& x, Term term) {
  const int64_t size = x.rows() * x.cols();
  return size == 0 ? 0 : sum_of_chunks(x, 0, (size + kChunk - 1) / kChunk, term);
}

template <class F>
void for_each_place(const ConstView& x, const F& f) {
  for (int64_t t = 0; t < x.rows; ++t)
    for (int64_t c = 0; c < x.cols; ++c) f(t, c);
}

/// Σ x of a column, in FP64, row after row.
double column_total(const Reader& x, int64_t col) {
  double total = 0;
  for (int64_t t = 0; t < x.rows(); ++t) total += x(t, col);
  return total;
}

}  // namespace

void perform(const Fill& op) {
  const Writer x(op.x);
  for_each_place(op.x, [&](int64_t t, int64_t c) { x.put(t, c, op.value); });
}

void perform(const Clear& op) { std::ranges::fill(op.bytes, std::byte{0}); }

void perform(const Copy& op) {
  NG_CHECK(same_shape(op.y, op.x), op.y.rows, op.y.cols, op.x.rows, op.x.cols);
  const Reader x(op.x);
  const Writer y(op.y);
  for_each_place(op.x, [&](int64_t t, int64_t c) { y.put(t, c, x(t, c)); });
}

void perform(const Add& op) {
  NG_CHECK(same_shape(op.y, op.a) && same_shape(op.y, op.b), op.y.rows, op.y.cols, op.a.rows,
           op.a.cols, op.b.rows, op.b.cols);
  const Reader a(op.a, op.y), b(op.b, op.y);
  const Writer y(op.y);
  for_each_place(op.y, [&](int64_t t, int64_t c) { y.put(t, c, a(t, c) + b(t, c)); });
}

void perform(const Combine& op) {
  NG_CHECK(same_shape(op.y, op.x), op.y.rows, op.y.cols, op.x.rows, op.x.cols);
  const Reader x(op.x), old(op.y);
  const Writer y(op.y);
  for_each_place(op.y, [&](int64_t t, int64_t c) {
    y.put(t, c, op.b == 0 ? op.a * x(t, c) : op.a * x(t, c) + op.b * old(t, c));
  });
}

void perform(const Normalize& op) {
  NG_CHECK(same_shape(op.y, op.x), op.y.rows, op.y.cols, op.x.rows, op.x.cols);
  const Reader x(op.x);
  const Writer y(op.y);
  const auto norm = static_cast<float>(std::sqrt(*op.sum_of_squares) + 1e-7);
  for_each_place(op.y, [&](int64_t t, int64_t c) { y.put(t, c, x(t, c) / norm); });
}

void perform(const AddColumnSums& op) {
  NG_CHECK(op.sum.rows == 1 && op.sum.cols == op.x.cols, op.sum.rows, op.sum.cols, op.x.cols);
  const Reader x(op.x);
  const Writer sum(op.sum);
  for (int64_t c = 0; c < op.x.cols; ++c) sum.add(0, c, static_cast<float>(column_total(x, c)));
}

void perform(const FindColumnMeans& op) {
  NG_CHECK(op.mean.rows == 1 && op.mean.cols == op.x.cols, op.mean.rows, op.mean.cols, op.x.cols);
  NG_CHECK(same_shape(op.in_bf16, op.mean), op.in_bf16.rows, op.in_bf16.cols);
  const Reader x(op.x);
  const Writer mean(op.mean), in_bf16(op.in_bf16);
  for (int64_t c = 0; c < op.x.cols; ++c) {
    const auto value = static_cast<float>(column_total(x, c) / static_cast<double>(x.rows()));
    mean.put(0, c, value);
    in_bf16.put(0, c, round_to_bf16(value));
  }
}

void perform(const SubtractRow& op) {
  NG_CHECK(same_shape(op.y, op.x) && op.row.cols == op.x.cols, op.y.rows, op.row.cols, op.x.cols);
  const Reader x(op.x), row(op.row);
  const Writer y(op.y);
  for_each_place(op.y, [&](int64_t t, int64_t c) { y.put(t, c, x(t, c) - row(0, c)); });
}

void perform(const AddSum& op) { *op.sum += tree_sum(Reader(op.x), itself); }
void perform(const AddSumOfSquares& op) { *op.sum += tree_sum(Reader(op.x), square_of); }

void perform(const AddNonfinite& op) {
  const Reader x(op.x);
  for_each_place(op.x, [&](int64_t t, int64_t c) { *op.count += std::isfinite(x(t, c)) ? 0 : 1; });
}

void perform(const FillNormal& op) {
  const Writer x(op.x);
  for_each_place(op.x, [&](int64_t t, int64_t c) {
    const auto element = static_cast<uint64_t>(t * op.x.cols + c);
    x.put(t, c, math::normal(op.key, element, op.deviation));
  });
}

void perform(const DecideStep& op) { decide_step(op); }

}  // namespace ng::ref
