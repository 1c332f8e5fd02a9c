// Attention of every backend against `ref`. The bounds follow the errors of the scores through the
// softmax (u = 2^-24; dot products and sums of n terms are off by n·u times the sum of magnitudes):
//   score s = scale · q·k          off by  es = (d + 3)·u·scale·Σ|q||k| + 2u·|s|
//   p = e^(s - lse) (or its sums)  off by ep = es + 4u·(1 + |s - lse|) relative, and by the row's
//                                  worst es once more through the normalisation
// As BF16 probabilities p and dS are rounded as well: in the forward pass as multiples of e^m of
// whatever m was the largest score so far, in the backward pass equally unless a tie is near.
#pragma once

#include <algorithm>
#include <vector>

#include "conformance.h"

namespace ng::conformance::attention {

struct Case {
  AttentionShape shape;
  Storage storage;
  float size;            // of q and k: how peaked the softmax is
  int64_t document = 0;  // keys of each, the first begins at 0; 0: all are of one
  Compute probabilities = Compute::fp32;
  bool has_wide_outputs = false;  // FP32, whatever is read
};

inline std::string text(const Case& c) {
  const AttentionShape& s = c.shape;
  return fmt::format(
      "attention {} x {} (keys {}, stride {}, first {}), heads {}/{} of {}, window {}, documents "
      "of {}, probabilities {}",
      s.sequences, s.length, s.kv_length, s.kv_stride, s.first, s.heads, s.kv_heads, s.head_dim,
      s.window, c.document, c.probabilities == Compute::bf16 ? "bf16" : "fp32");
}

/// Inputs of one case; q, k and v lie side by side in one matrix where their rows match.
struct Inputs {
  Case c;
  Matrix q, k, v, dout;
  std::vector<int32_t> first_keys;

  explicit Inputs(const Case& which) : c(which) {
    const AttentionShape& s = c.shape;
    const int64_t tokens = s.sequences * s.length, keys = s.sequences * s.kv_stride;
    // Of multiples of eight, rows begin where matrix units and vectors like them to.
    const bool is_even = s.head_dim % 8 == 0;
    const auto matrix = [&](int64_t rows, int heads, int64_t guards, int64_t unaligned) {
      return Matrix(rows, int64_t{heads} * s.head_dim, is_even ? 8 : guards,
                    is_even ? 8 : unaligned);
    };
    q = matrix(tokens, s.heads, 5, 1).fill_uniform(60, c.size);
    k = matrix(keys, s.kv_heads, 3, 2).fill_uniform(61, c.size);
    v = matrix(keys, s.kv_heads, 3, 3).fill_uniform(62, 2);
    dout = matrix(tokens, s.heads, 0, 0).fill_uniform(63, 2);
    for (int64_t row = 0; c.document > 0 && row < tokens; ++row) {
      const int64_t position = s.first + row % s.length;
      first_keys.push_back(static_cast<int32_t>(position - position % c.document));
    }
  }
  [[nodiscard]] int64_t first_key(int64_t row) const {
    const AttentionShape& s = c.shape;
    const int64_t of_document = first_keys.empty() ? 0 : first_keys[static_cast<size_t>(row)];
    const int64_t of_window = s.window == 0 ? 0 : s.first + row % s.length + 1 - s.window;
    return std::max(of_document, of_window);
  }
  /// Of q, k, v, dout.
  [[nodiscard]] double in(const Matrix& x, int64_t row, int64_t head, int64_t i) const {
    return read(x.at(row, head * c.shape.head_dim + i), c.storage);
  }
  [[nodiscard]] double in_out(const Matrix& out, int64_t row, int64_t head, int64_t i) const {
    return c.has_wide_outputs ? out.at(row, head * c.shape.head_dim + i) : in(out, row, head, i);
  }
};

inline Tensor output(const Place& with, const Inputs& x, const Matrix& like) {
  return x.c.has_wide_outputs ? with.fp32(like) : with.activation(like);
}

/// out and lse of `ref`, which every backward pass gets, so that only its own errors count.
struct Forward {
  Matrix out, lse;
};

inline Forward forward(const Place& with, const Inputs& x) {
  Tensor out = output(with, x, Matrix(x.q.rows(), x.q.cols(), 1));
  Tensor lse = with.fp32(Matrix(x.q.rows(), x.c.shape.heads, 2));
  const Buffer<int32_t> first_keys = with.buffer(x.first_keys);
  with.execute(Attention{.out = out,
                         .lse = lse,
                         .q = with.activation(x.q),
                         .k = with.activation(x.k),
                         .v = with.activation(x.v),
                         .shape = x.c.shape,
                         .first_keys = first_keys.span(),
                         .probabilities = x.c.probabilities});
  return {out.values(), lse.values()};
}

inline Results run(const Place& with, const Inputs& x, const Forward& known) {
  const Forward own = forward(with, x);
  const Buffer<int32_t> first_keys = with.buffer(x.first_keys);
  Tensor dq = output(with, x, Matrix(x.q.rows(), x.q.cols(), 2));
  // Rows past kv_length keep this.
  Tensor dk = output(with, x, Matrix(x.k.rows(), x.k.cols(), 1, 3).fill(-7));
  Tensor dv = output(with, x, Matrix(x.v.rows(), x.v.cols()).fill(-7));
  with.execute(AttentionBackward{.dq = dq,
                                 .dk = dk,
                                 .dv = dv,
                                 .dout = with.activation(x.dout),
                                 .out = output(with, x, known.out),
                                 .lse = with.fp32(known.lse),
                                 .q = with.activation(x.q),
                                 .k = with.activation(x.k),
                                 .v = with.activation(x.v),
                                 .shape = x.c.shape,
                                 .first_keys = first_keys.span(),
                                 .probabilities = x.c.probabilities});
  return {{"out", own.out},
          {"lse", own.lse},
          {"dq", dq.values()},
          {"dk", dk.values()},
          {"dv", dv.values()}};
}

/// By how much numbers rounded to BF16 differ at most that are within `error` of x: not at all,
/// unless a tie lies between.
inline double rounding_error(double x, double error) {
  const auto rounded = [](double v) { return double{round_to_bf16(static_cast<float>(v))}; };
  const double size = std::abs(x), slack = error + 2 * kUnit * size;
  return rounded(size + slack) - rounded(size - slack);
}

/// Bounds of all outputs of one case, by the recipe at the top.
class Bounds {
 public:
  Bounds(const Inputs& x, const Forward& known) : x_(x), known_(known), s_(x.c.shape) {
    bound_["out"] = Matrix(x.q.rows(), x.q.cols());
    bound_["lse"] = Matrix(x.q.rows(), s_.heads);
    bound_["dq"] = Matrix(x.q.rows(), x.q.cols());
    bound_["dk"] = Matrix(x.k.rows(), x.k.cols());
    bound_["dv"] = Matrix(x.v.rows(), x.v.cols());
    for (auto& [name, matrix] : bound_) matrix.fill(0);
    for (int64_t sequence = 0; sequence < s_.sequences; ++sequence)
      for (int64_t head = 0; head < s_.heads; ++head)
        for (int64_t i = 0; i < s_.length; ++i) add_query(sequence, head, i);
  }
  double operator()(const std::string& name, int64_t row, int64_t col) const {
    return 1.001 * bound_.at(name).at(row, col);
  }

 private:
  struct Score {
    double value, error;
  };
  struct Dot {
    double value, size;
  };

  /// Of as many terms as a head has values.
  template <class Term>
  Dot sum_of(const Term& term_at) const {
    Dot sum{0, 0};
    for (int64_t i = 0; i < s_.head_dim; ++i) {
      const double term = term_at(i);
      sum.value += term;
      sum.size += std::abs(term);
    }
    return sum;
  }
  Dot dot(const Matrix& a, int64_t row_a, int64_t head_a, const Matrix& b, int64_t row_b,
          int64_t head_b) const {
    return sum_of(
        [&](int64_t i) { return x_.in(a, row_a, head_a, i) * x_.in(b, row_b, head_b, i); });
  }

  void add_query(int64_t sequence, int64_t head, int64_t i) {
    const int64_t row = sequence * s_.length + i, keys = s_.first + i + 1;
    const int64_t begin = x_.first_key(row);
    const int64_t kv_head = head / (s_.heads / s_.kv_heads);
    const double scale = 1 / std::sqrt(static_cast<double>(s_.head_dim));
    const double lse = known_.lse.at(row, head), d = s_.head_dim;
    const double terms = (static_cast<double>(keys) + 8) * kUnit;  // error of sums over keys
    const double all = static_cast<double>(s_.kv_length * s_.heads) * kUnit + terms;
    std::vector<Score> scores;
    double worst = 0;
    for (int64_t j = begin; j < keys; ++j) {
      const Dot qk = dot(x_.q, row, head, x_.k, sequence * s_.kv_stride + j, kv_head);
      scores.push_back(
          {scale * qk.value, kUnit * ((d + 3) * scale * qk.size + 2 * std::abs(scale * qk.value))});
      worst = std::max(worst, scores.back().error);
    }
    const Dot mean = sum_of([&](int64_t c) {
      return x_.in(x_.dout, row, head, c) * x_.in_out(known_.out, row, head, c);
    });
    const double mean_error = (d + 3) * kUnit * mean.size;
    bound_["lse"].at(row, head) =
        static_cast<float>(worst + terms + 8 * kUnit * (1 + std::abs(lse)));
    Matrix &out = bound_["out"], &dq = bound_["dq"], &dk = bound_["dk"], &dv = bound_["dv"];
    for (int64_t j = begin; j < keys; ++j) {
      const auto [score, error] = scores[static_cast<size_t>(j - begin)];
      const int64_t key = sequence * s_.kv_stride + j;
      const double p = std::exp(score - lse);
      const double ep = error + 4 * kUnit * (2 + std::abs(score - lse) + std::abs(score));
      const Dot dp = dot(x_.dout, row, head, x_.v, key, kv_head);
      const double slope = dp.value - mean.value;
      const double slope_error = (d + 3) * kUnit * dp.size + mean_error +
                                 4 * kUnit * (std::abs(dp.value) + std::abs(mean.value));
      const double ds = scale * p * std::abs(slope);
      const double ds_error = scale * p * (slope_error + (ep + 4 * kUnit) * std::abs(slope));
      double p_rounding = 0, dv_rounding = 0, ds_rounding = 0;
      if (x_.c.probabilities == Compute::bf16) {
        p_rounding = 1.01 * p * 0x1p-7 + 0x1p-120;  // half a unit each
        dv_rounding = rounding_error(p, p * ep) + 0x1p-120;
        ds_rounding = rounding_error(ds, ds_error) + 0x1p-120;
      }
      for (int64_t c = 0; c < s_.head_dim; ++c) {
        const double v = std::abs(x_.in(x_.v, key, kv_head, c));
        const double k = std::abs(x_.in(x_.k, key, kv_head, c));
        const double q = std::abs(x_.in(x_.q, row, head, c));
        const double dy = std::abs(x_.in(x_.dout, row, head, c));
        add(out, row, head, c, v * (p * (ep + worst + 2 * terms) + p_rounding));
        add(dq, row, head, c, k * (ds_error + terms * ds + ds_rounding));
        add(dk, key, kv_head, c, q * (ds_error + all * ds + ds_rounding));
        add(dv, key, kv_head, c, dy * (p * (ep + all) + dv_rounding));
      }
    }
  }

  void add(Matrix& bound, int64_t row, int64_t head, int64_t c, double error) const {
    bound.at(row, head * s_.head_dim + c) += static_cast<float>(error);
  }

  const Inputs& x_;
  const Forward& known_;
  AttentionShape s_;
  std::map<std::string, Matrix> bound_;
};

/// Results of ref and bounds for them.
struct Expected {
  explicit Expected(const Case& c)
      : x(c),
        known(forward({reference(), c.storage}, x)),
        want(run({reference(), c.storage}, x, known)),
        bounds(x, known) {}

  Inputs x;
  Forward known;
  Results want;
  Bounds bounds;
};

/// An emulated card takes one of `card_every` cases.
inline void check(const Case& c, int card_every = 1) {
  const Expected e(c);
  conform(
      text(c), c.storage, [&](const Place& with) { return run(with, e.x, e.known); },
      [&](const std::string& name, int64_t row, int64_t col) {
        const double bound = e.bounds(name, row, col);
        return name == "lse" ? bound : with_bf16(bound, e.want.at(name).at(row, col), c.storage);
      },
      {.card_every = card_every, .multiplies = true});
}

/// All that differ in attention of tensors in these numbers.
inline std::vector<Target> targets_of(Storage storage) {
  return storage == Storage::bf16 ? targets() : targets_without_units();
}

/// Matrix units, which add with twice the error of FP32 for each product (backend/sum_bound.h):
/// tensors of BF16 whose results are FP32, so that no rounding hides what they lose.
inline void check_units(Case c) {
  c.has_wide_outputs = true;
  const Expected e(c);
  for (const Target& target : targets()) {
    if (!has_units(target.backend)) continue;
    SCOPED_TRACE(fmt::format("{} {}", target.label(), text(c)));
    compare(run({backend_of(target), c.storage}, e.x, e.known), e.want,
            [&](const std::string& name, int64_t row, int64_t col) {
              return 2 * e.bounds(name, row, col);
            });
  }
}

inline const AttentionShape kAttentionShapes[] = {
    {.sequences = 1,
     .length = 1,
     .kv_length = 1,
     .kv_stride = 1,
     .first = 0,
     .heads = 1,
     .kv_heads = 1,
     .head_dim = 1},
    {.sequences = 2,
     .length = 5,
     .kv_length = 5,
     .kv_stride = 5,
     .first = 0,
     .heads = 2,
     .kv_heads = 2,
     .head_dim = 3},
    {.sequences = 1,
     .length = 65,
     .kv_length = 65,
     .kv_stride = 65,
     .first = 0,
     .heads = 2,
     .kv_heads = 1,
     .head_dim = 16},
    {.sequences = 2,
     .length = 130,
     .kv_length = 130,
     .kv_stride = 130,
     .first = 0,
     .heads = 1,
     .kv_heads = 1,
     .head_dim = 64},
    {.sequences = 1,
     .length = 40,
     .kv_length = 40,
     .kv_stride = 43,
     .first = 0,
     .heads = 3,
     .kv_heads = 3,
     .head_dim = 80},
    {.sequences = 2,
     .length = 33,
     .kv_length = 99,
     .kv_stride = 101,
     .first = 65,
     .heads = 4,
     .kv_heads = 2,
     .head_dim = 20},
    {.sequences = 1,
     .length = 1,
     .kv_length = 150,
     .kv_stride = 160,
     .first = 148,
     .heads = 4,
     .kv_heads = 1,
     .head_dim = 33},
    {.sequences = 1,
     .length = 70,
     .kv_length = 140,
     .kv_stride = 144,
     .first = 69,
     .heads = 2,
     .kv_heads = 1,
     .head_dim = 128},
    {.sequences = 3,
     .length = 17,
     .kv_length = 30,
     .kv_stride = 30,
     .first = 9,
     .heads = 1,
     .kv_heads = 1,
     .head_dim = 129},
};

/// Of one sequence whose queries are all there.
inline AttentionShape one_sequence(int64_t length, int heads, int kv_heads, int head_dim) {
  return {.sequences = 1,
          .length = length,
          .kv_length = length,
          .kv_stride = length,
          .first = 0,
          .heads = heads,
          .kv_heads = kv_heads,
          .head_dim = head_dim};
}

inline AttentionShape with_window(AttentionShape shape, int64_t window) {
  shape.window = window;
  return shape;
}

}  // namespace ng::conformance::attention
