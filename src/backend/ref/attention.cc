#include "backend/ref/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/ref/number.h"
#include "math/exp.h"
#include "math/log.h"
#include "math/sincos.h"

namespace ng::ref {

void rope_table(View table, float theta) {
  NG_CHECK(table.cols % 2 == 0, table.cols);
  constexpr double kTwoPi = 6.283185307179586;
  const int64_t half = table.cols / 2;
  for (int64_t position = 0; position < table.rows; ++position)
    for (int64_t i = 0; i < half; ++i) {
      const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(table.cols);
      const double angle = static_cast<double>(position) * std::pow(theta, exponent);
      const math::SinCos turned = math::sincos_turns(angle / kTwoPi);
      table.row(position)[i] = static_cast<float>(turned.cos);
      table.row(position)[half + i] = static_cast<float>(turned.sin);
    }
}

void rope(View x, ConstView table, const Positions& at, int head_dim, bool inverse,
          Compute compute) {
  NG_CHECK(head_dim > 0 && head_dim % 2 == 0 && x.cols % head_dim == 0 && table.cols == head_dim,
           head_dim, x.cols, table.cols);
  NG_CHECK(x.rows == at.sequences * at.length && at.first + at.length <= table.rows, x.rows,
           at.sequences, at.length, at.first, table.rows);
  const int64_t half = head_dim / 2;
  for (int64_t t = 0; t < x.rows; ++t) {
    const float* angles = table.row(at.first + t % at.length);
    for (int64_t head = 0; head < x.cols; head += head_dim)
      for (int64_t i = 0; i < half; ++i) {
        float& first = x.row(t)[head + i];
        float& second = x.row(t)[head + half + i];
        const float a = in(first, compute);
        const float b = in(second, compute);
        const float cos = in(angles[i], compute);
        const float sin = inverse ? -in(angles[half + i], compute) : in(angles[half + i], compute);
        first = out(a * cos - b * sin, compute);
        second = out(b * cos + a * sin, compute);
      }
  }
}

namespace {

void check(const AttentionShape& s, ConstView q, ConstView k, ConstView v) {
  NG_CHECK(s.heads > 0 && s.kv_heads > 0 && s.heads % s.kv_heads == 0, s.heads, s.kv_heads);
  NG_CHECK(q.rows == s.sequences * s.length && q.cols == int64_t{s.heads} * s.head_dim, q.rows,
           q.cols, s.sequences, s.length, s.heads, s.head_dim);
  NG_CHECK(same_shape(k, v) && k.cols == int64_t{s.kv_heads} * s.head_dim, k.rows, k.cols, v.rows,
           v.cols, s.kv_heads, s.head_dim);
  NG_CHECK(s.kv_length <= s.kv_stride && k.rows >= s.sequences * s.kv_stride, s.kv_length,
           s.kv_stride, k.rows, s.sequences);
  NG_CHECK(s.first >= 0 && s.first + s.length <= s.kv_length, s.first, s.length, s.kv_length);
}

double dot(const float* a, const float* b, int n, Compute compute) {
  double sum = 0;
  for (int c = 0; c < n; ++c) sum += static_cast<double>(in(a[c], compute)) * in(b[c], compute);
  return sum;
}

/// One head of one sequence: where its rows lie.
struct Head {
  const AttentionShape& s;
  int64_t sequence;
  int head;
  int kv_head;

  template <class V>
  [[nodiscard]] V* query(const BasicView<V>& x, int64_t i) const {
    return x.row(sequence * s.length + i) + int64_t{head} * s.head_dim;
  }
  template <class V>
  [[nodiscard]] V* key(const BasicView<V>& x, int64_t j) const {
    return x.row(sequence * s.kv_stride + j) + int64_t{kv_head} * s.head_dim;
  }
  [[nodiscard]] int64_t visible(int64_t i) const { return s.first + i + 1; }
};

template <class Body>
void for_each_kv_head(const AttentionShape& s, const Body& body) {
  for (int64_t sequence = 0; sequence < s.sequences; ++sequence)
    for (int kv_head = 0; kv_head < s.kv_heads; ++kv_head) body(sequence, kv_head);
}

template <class Body>
void for_each_head_of(const AttentionShape& s, int64_t sequence, int kv_head, const Body& body) {
  const int group = s.heads / s.kv_heads;
  for (int head = kv_head * group; head < (kv_head + 1) * group; ++head)
    body(Head{s, sequence, head, kv_head});
}

double max_of(const double* x, int64_t n) {
  double max = -std::numeric_limits<double>::infinity();
  for (int64_t j = 0; j < n; ++j) max = (x[j] > max || std::isnan(x[j])) ? x[j] : max;
  return max;
}

}  // namespace

void attention(View out, View lse, ConstView q, ConstView k, ConstView v,
               const AttentionShape& shape, Compute compute, std::vector<double>& scratch) {
  check(shape, q, k, v);
  NG_CHECK(same_shape(out, q) && lse.rows == q.rows && lse.cols == shape.heads, out.rows, out.cols,
           lse.rows, lse.cols);
  const double scale = 1 / std::sqrt(static_cast<double>(shape.head_dim));
  scratch.resize(std::max(scratch.size(), static_cast<size_t>(shape.kv_length)));
  double* score = scratch.data();
  const auto one_query = [&](const Head& at, int64_t i) {
    const int64_t keys = at.visible(i);
    for (int64_t j = 0; j < keys; ++j)
      score[j] = scale * dot(at.query(q, i), at.key(k, j), shape.head_dim, compute);
    const double max = max_of(score, keys);
    double sum = 0;
    for (int64_t j = 0; j < keys; ++j) sum += score[j] = math::exp(score[j] - max);
    for (int c = 0; c < shape.head_dim; ++c) {
      double value = 0;
      for (int64_t j = 0; j < keys; ++j) value += score[j] * in(at.key(v, j)[c], compute);
      at.query(out, i)[c] = ref::out(static_cast<float>(value / sum), compute);
    }
    lse.row(at.sequence * shape.length + i)[at.head] = static_cast<float>(max + math::log(sum));
  };
  for_each_kv_head(shape, [&](int64_t sequence, int kv_head) {
    for_each_head_of(shape, sequence, kv_head, [&](const Head& at) {
      for (int64_t i = 0; i < shape.length; ++i) one_query(at, i);
    });
  });
}

void attention_backward(const AttentionBackward& a, const AttentionShape& shape, Compute compute,
                        std::vector<double>& scratch) {
  check(shape, a.q, a.k, a.v);
  NG_CHECK(same_shape(a.dq, a.q) && same_shape(a.dout, a.q) && same_shape(a.out, a.q) &&
               same_shape(a.dk, a.k) && same_shape(a.dv, a.v) && a.lse.rows == a.q.rows &&
               a.lse.cols == shape.heads,
           a.dq.rows, a.dq.cols, a.dk.rows, a.dk.cols, a.dout.rows, a.dout.cols, a.lse.rows,
           a.lse.cols);
  const int d = shape.head_dim;
  const double scale = 1 / std::sqrt(static_cast<double>(d));
  const auto sums = static_cast<size_t>(shape.kv_length * d);
  scratch.resize(std::max(scratch.size(), 2 * sums + static_cast<size_t>(d)));
  double* dk_sum = scratch.data();
  double* dv_sum = dk_sum + sums;
  double* dq_sum = dv_sum + sums;
  const auto one_query = [&](const Head& at, int64_t i) {
    const float* dy = at.query(a.dout, i);
    const double mean = dot(dy, at.query(a.out, i), d, compute);
    const double log_sum = a.lse.row(at.sequence * shape.length + i)[at.head];
    std::fill_n(dq_sum, d, 0.0);
    for (int64_t j = 0; j < at.visible(i); ++j) {
      const double p =
          math::exp(scale * dot(at.query(a.q, i), at.key(a.k, j), d, compute) - log_sum);
      const double ds = p * (dot(dy, at.key(a.v, j), d, compute) - mean) * scale;
      for (int c = 0; c < d; ++c) {
        dv_sum[j * d + c] += p * in(dy[c], compute);
        dk_sum[j * d + c] += ds * in(at.query(a.q, i)[c], compute);
        dq_sum[c] += ds * in(at.key(a.k, j)[c], compute);
      }
    }
    for (int c = 0; c < d; ++c)
      at.query(a.dq, i)[c] = ref::out(static_cast<float>(dq_sum[c]), compute);
  };
  for_each_kv_head(shape, [&](int64_t sequence, int kv_head) {
    std::fill_n(dk_sum, 2 * sums, 0.0);
    for_each_head_of(shape, sequence, kv_head, [&](const Head& at) {
      for (int64_t i = 0; i < shape.length; ++i) one_query(at, i);
    });
    const Head at{shape, sequence, 0, kv_head};
    for (int64_t j = 0; j < shape.kv_length; ++j)
      for (int c = 0; c < d; ++c) {
        at.key(a.dk, j)[c] = ref::out(static_cast<float>(dk_sum[j * d + c]), compute);
        at.key(a.dv, j)[c] = ref::out(static_cast<float>(dv_sum[j * d + c]), compute);
      }
  });
}

}  // namespace ng::ref
