#include "backend/ref/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/layer_checks.h"
#include "math/exp.h"
#include "math/log.h"
#include "math/sincos.h"

namespace ng::ref {

void perform(const RopeTable& op) {
  NG_CHECK(op.table.cols % 2 == 0, op.table.cols);
  constexpr double kTwoPi = 6.283185307179586;
  const int64_t half = op.table.cols / 2;
  const Writer table(op.table);
  for (int64_t position = 0; position < op.table.rows; ++position)
    for (int64_t i = 0; i < half; ++i) {
      const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(op.table.cols);
      const double frequency = math::scaled_frequency(op.scaling, std::pow(op.theta, exponent));
      const double angle = static_cast<double>(position) * frequency;
      const math::SinCos turned = math::sincos_turns(angle / kTwoPi);
      table.put(position, i, static_cast<float>(turned.cos));
      table.put(position, half + i, static_cast<float>(turned.sin));
    }
}

void perform(const Rope& op) {
  const Positions& at = op.at;
  check_rope(op);
  const int64_t half = op.head_dim / 2;
  const Reader x(op.x, op.x), angles(op.table, op.x);
  const Writer turned(op.x);
  for (int64_t t = 0; t < op.x.rows; ++t) {
    const int64_t position = at.first + t % at.length;
    for (int64_t head = 0; head < op.x.cols; head += op.head_dim)
      for (int64_t i = 0; i < half; ++i) {
        const float a = x(t, head + i);
        const float b = x(t, head + half + i);
        const float cos = angles(position, i);
        const float sin = op.inverse ? -angles(position, half + i) : angles(position, half + i);
        turned.put(t, head + i, a * cos - b * sin);
        turned.put(t, head + half + i, b * cos + a * sin);
      }
  }
}

namespace {

/// The values of one head in one row.
struct Part {
  const Reader& x;
  int64_t row, first;
  float operator[](int c) const { return x(row, first + c); }
};

double dot(const Part& a, const Part& b, int n) {
  double sum = 0;
  for (int c = 0; c < n; ++c) sum += static_cast<double>(a[c]) * b[c];
  return sum;
}

/// One head of one sequence: where its rows and columns lie.
struct Head {
  const AttentionShape& s;
  int64_t sequence;
  int head;
  int kv_head;
  const TokenView& first_keys;

  [[nodiscard]] int64_t query_row(int64_t i) const { return sequence * s.length + i; }
  [[nodiscard]] int64_t key_row(int64_t j) const { return sequence * s.kv_stride + j; }
  [[nodiscard]] int64_t query_col() const { return int64_t{head} * s.head_dim; }
  [[nodiscard]] int64_t key_col() const { return int64_t{kv_head} * s.head_dim; }
  [[nodiscard]] Part query(const Reader& x, int64_t i) const {
    return {x, query_row(i), query_col()};
  }
  [[nodiscard]] Part key(const Reader& x, int64_t j) const { return {x, key_row(j), key_col()}; }
  /// Query i sees keys first_key(i) ... visible(i) - 1.
  [[nodiscard]] int64_t first_key(int64_t i) const {
    const int64_t of_document =
        first_keys.empty() ? 0 : first_keys[static_cast<size_t>(query_row(i))];
    return std::max(of_document, s.first_key(i));
  }
  [[nodiscard]] int64_t visible(int64_t i) const { return s.first + i + 1; }
};

template <class Body>
void for_each_kv_head(const AttentionShape& s, const Body& body) {
  for (int64_t sequence = 0; sequence < s.sequences; ++sequence)
    for (int kv_head = 0; kv_head < s.kv_heads; ++kv_head) body(sequence, kv_head);
}

template <class Body>
void for_each_head_of(const AttentionShape& s, const TokenView& first_keys, int64_t sequence,
                      int kv_head, const Body& body) {
  const int group = s.heads / s.kv_heads;
  for (int head = kv_head * group; head < (kv_head + 1) * group; ++head)
    body(Head{s, sequence, head, kv_head, first_keys});
}

/// What of P or dS enters a product.
double factor(double x, Compute probabilities) {
  return probabilities == Compute::bf16 ? double{round_to_bf16(static_cast<float>(x))} : x;
}

double max_of(const double* x, int64_t first, int64_t end) {
  double max = -std::numeric_limits<double>::infinity();
  for (int64_t j = first; j < end; ++j) max = (x[j] > max || std::isnan(x[j])) ? x[j] : max;
  return max;
}

}  // namespace

void perform(const Attention& op, Scratch& scratch) {
  const AttentionShape& shape = op.shape;
  check_attention(shape, op.q, op.k, op.v, op.first_keys);
  NG_CHECK(same_shape(op.out, op.q) && op.lse.rows == op.q.rows && op.lse.cols == shape.heads,
           op.out.rows, op.out.cols, op.lse.rows, op.lse.cols);
  const double scale = 1 / std::sqrt(static_cast<double>(shape.head_dim));
  scratch.resize(std::max(scratch.size(), static_cast<size_t>(shape.kv_length)));
  double* score = scratch.data();
  const Reader q(op.q, op.out), k(op.k, op.out), v(op.v, op.out);
  const Writer out(op.out), lse(op.lse);
  const auto one_query = [&](const Head& at, int64_t i) {
    const int64_t first = at.first_key(i), keys = at.visible(i);
    for (int64_t j = first; j < keys; ++j)
      score[j] = scale * dot(at.query(q, i), at.key(k, j), shape.head_dim);
    const double max = max_of(score, first, keys);
    double sum = 0;
    for (int64_t j = first; j < keys; ++j) sum += score[j] = math::exp(score[j] - max);
    for (int c = 0; c < shape.head_dim; ++c) {
      double value = 0;
      for (int64_t j = first; j < keys; ++j)
        value += factor(score[j], op.probabilities) * at.key(v, j)[c];
      out.put(at.query_row(i), at.query_col() + c, static_cast<float>(value / sum));
    }
    lse.put(at.query_row(i), at.head, static_cast<float>(max + math::log(sum)));
  };
  for_each_kv_head(shape, [&](int64_t sequence, int kv_head) {
    for_each_head_of(shape, op.first_keys, sequence, kv_head, [&](const Head& at) {
      for (int64_t i = 0; i < shape.length; ++i) one_query(at, i);
    });
  });
  put_amax(op.out, op.amax);
}

void perform(const AttentionBackward& op, Scratch& scratch) {
  const AttentionShape& shape = op.shape;
  check_attention(shape, op.q, op.k, op.v, op.first_keys);
  NG_CHECK(same_shape(op.dq, op.q) && same_shape(op.dout, op.q) && same_shape(op.out, op.q) &&
               same_shape(op.dk, op.k) && same_shape(op.dv, op.v) && op.lse.rows == op.q.rows &&
               op.lse.cols == shape.heads,
           op.dq.rows, op.dq.cols, op.dk.rows, op.dk.cols, op.dout.rows, op.dout.cols, op.lse.rows,
           op.lse.cols);
  const int d = shape.head_dim;
  const double scale = 1 / std::sqrt(static_cast<double>(d));
  const auto sums = static_cast<size_t>(shape.kv_length * d);
  scratch.resize(std::max(scratch.size(), 2 * sums + static_cast<size_t>(d)));
  double* dk_sum = scratch.data();
  double* dv_sum = dk_sum + sums;
  double* dq_sum = dv_sum + sums;
  const Reader q(op.q, op.dq), k(op.k, op.dq), v(op.v, op.dq);
  const Reader dout(op.dout, op.dq), out(op.out, op.dq), lse(op.lse);
  const Writer dq(op.dq), dk(op.dk), dv(op.dv);
  const auto one_query = [&](const Head& at, int64_t i) {
    const Part dy = at.query(dout, i);
    const double mean = dot(dy, at.query(out, i), d);
    const double log_sum = lse(at.query_row(i), at.head);
    std::fill_n(dq_sum, d, 0.0);
    for (int64_t j = at.first_key(i); j < at.visible(i); ++j) {
      const double p = math::exp(scale * dot(at.query(q, i), at.key(k, j), d) - log_sum);
      const double ds = p * (dot(dy, at.key(v, j), d) - mean) * scale;
      const double of_values = factor(p, op.probabilities);
      const double of_scores = factor(ds, op.probabilities);
      for (int c = 0; c < d; ++c) {
        dv_sum[j * d + c] += of_values * dy[c];
        dk_sum[j * d + c] += of_scores * at.query(q, i)[c];
        dq_sum[c] += of_scores * at.key(k, j)[c];
      }
    }
    for (int c = 0; c < d; ++c)
      dq.put(at.query_row(i), at.query_col() + c, static_cast<float>(dq_sum[c]));
  };
  for_each_kv_head(shape, [&](int64_t sequence, int kv_head) {
    std::fill_n(dk_sum, 2 * sums, 0.0);
    for_each_head_of(shape, op.first_keys, sequence, kv_head, [&](const Head& at) {
      for (int64_t i = 0; i < shape.length; ++i) one_query(at, i);
    });
    const Head at{shape, sequence, 0, kv_head, op.first_keys};
    for (int64_t j = 0; j < shape.kv_length; ++j)
      for (int c = 0; c < d; ++c) {
        dk.put(at.key_row(j), at.key_col() + c, static_cast<float>(dk_sum[j * d + c]));
        dv.put(at.key_row(j), at.key_col() + c, static_cast<float>(dv_sum[j * d + c]));
      }
  });
}

}  // namespace ng::ref
