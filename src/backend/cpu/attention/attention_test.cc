// BF16 in memory against FP32 in memory, which the conformance suite compares with `ref`: inputs
// are read exactly, sums are the same, results are rounded once.
#include "backend/cpu/attention/attention.h"

#include "backend/backend.h"
#include "backend/cpu/kernel_testing.h"
#include "math/exp.h"
#include "math/log.h"

namespace ng::cpu {
namespace {

/// Inputs of one shape, and what attention makes of them on every machine.
struct Inputs {
  AttentionShape s;
  Compute probabilities;
  int64_t rows = s.sequences * s.length, kv_rows = s.sequences * s.kv_stride;
  int64_t width = int64_t{s.heads} * s.head_dim, kv_width = int64_t{s.kv_heads} * s.head_dim;
  MatrixOf<Bf16> q = MatrixOf<Bf16>(rows, width, 3).randomize(1);
  MatrixOf<Bf16> k = MatrixOf<Bf16>(kv_rows, kv_width, 1).randomize(2);
  MatrixOf<Bf16> v = MatrixOf<Bf16>(kv_rows, kv_width).randomize(3);
  MatrixOf<Bf16> dout = MatrixOf<Bf16>(rows, width, 2).randomize(4);
  std::vector<int32_t> first_keys = {};

  /// Of so many tokens each.
  void divide_into_documents(int64_t tokens) {
    for (int64_t r = 0; r < rows; ++r)
      first_keys.push_back(static_cast<int32_t>((s.first + r % s.length) / tokens * tokens));
  }

  // out, then lse
  template <class Stored>
  std::vector<float> forward() {
    const MatrixOf<Stored> queries(q), keys(k), values(v);
    return on_every_machine(
        [&](Workspace& w) {
          MatrixOf<Stored> out(rows, width, 5);
          Matrix lse(rows, s.heads);
          perform(w, Attention{.out = out.view(),
                               .lse = lse.view(),
                               .q = queries.view(),
                               .k = keys.view(),
                               .v = values.view(),
                               .shape = s,
                               .first_keys = first_keys,
                               .probabilities = probabilities});
          EXPECT_TRUE(out.gaps_untouched());
          return joined({out.values(), lse.values()});
        },
        supported_isas());
  }
  // dq, dk, dv
  template <class Stored>
  std::vector<float> backward(const MatrixOf<Bf16>& result, const Matrix& lse) {
    const MatrixOf<Stored> queries(q), keys(k), values(v), slopes(dout), out(result);
    return on_every_machine(
        [&](Workspace& w) {
          MatrixOf<Stored> dq(rows, width, 1), dk(kv_rows, kv_width, 2), dv(kv_rows, kv_width, 3);
          perform(w, AttentionBackward{.dq = dq.view(),
                                       .dk = dk.view(),
                                       .dv = dv.view(),
                                       .dout = slopes.view(),
                                       .out = out.view(),
                                       .lse = lse.view(),
                                       .q = queries.view(),
                                       .k = keys.view(),
                                       .v = values.view(),
                                       .shape = s,
                                       .first_keys = first_keys,
                                       .probabilities = probabilities});
          EXPECT_TRUE(dq.gaps_untouched() && dk.gaps_untouched() && dv.gaps_untouched());
          return joined({dq.values(), dk.values(), dv.values()});
        },
        supported_isas());
  }
};

class AttentionOf : public ::testing::TestWithParam<AttentionShape> {};

constexpr Compute kBoth[] = {Compute::fp32, Compute::bf16};

TEST_P(AttentionOf, Bf16RoundsResultsOnce) {
  for (const Compute probabilities : kBoth) {
    Inputs x{GetParam(), probabilities};
    std::vector<float> want = x.forward<float>();
    const size_t outputs = static_cast<size_t>(x.rows * x.width);
    for (size_t i = 0; i < outputs; ++i) want[i] = bf16(want[i]);  // lse stays FP32
    EXPECT_TRUE(same_bits(x.forward<Bf16>(), want));
  }
}

TEST_P(AttentionOf, Bf16GradientsAreSumsRoundedOnce) {
  for (const Compute probabilities : kBoth) {
    Inputs x{GetParam(), probabilities};
    const auto out = MatrixOf<Bf16>(x.rows, x.width).randomize(5);
    const Matrix lse = Matrix(x.rows, x.s.heads).randomize(6, 1, 3);
    EXPECT_TRUE(same_bits(x.backward<Bf16>(out, lse), bf16(x.backward<float>(out, lse))));
  }
}

/// The same bits everywhere of inputs that dot products of pairs cannot all take.
void expect_same_everywhere(Inputs& x) {
  const auto out = MatrixOf<Bf16>(x.rows, x.width).randomize(5);
  const Matrix lse = Matrix(x.rows, x.s.heads).randomize(6, 1, 3);
  (void)x.forward<Bf16>();
  (void)x.backward<Bf16>(out, lse);
}

/// Those of which many kinds of inputs are tried.
class SmallAttention : public ::testing::TestWithParam<AttentionShape> {};

// Products of scores, of values, or both around the least normal number and below.
TEST_P(SmallAttention, SubnormalsHaveTheSameBitsEverywhere) {
  for (const Compute probabilities : kBoth)
    for (const auto& [queries, values] :
         {std::pair(0x1p-62f, 1.0f), std::pair(1.0f, 0x1p-122f), std::pair(0x1p-128f, 0x1p-70f)}) {
      Inputs x{GetParam(), probabilities};
      x.q.randomize(11, queries);
      x.k.randomize(12, queries);
      x.v.randomize(13, values);
      x.dout.randomize(14, values);
      expect_same_everywhere(x);
    }
}

TEST_P(SmallAttention, WhatIsNotFiniteReachesTheSameEverywhere) {
  for (const Compute probabilities : kBoth)
    for (MatrixOf<Bf16> Inputs::*which : {&Inputs::q, &Inputs::k, &Inputs::v, &Inputs::dout})
      for (const float bad : {kNan, kInf}) {
        Inputs x{GetParam(), probabilities};
        const auto all = (x.*which).view();
        (x.*which).at(all.rows / 2, all.cols / 2) = stored_as<Bf16>(bad);
        expect_same_everywhere(x);
      }
}

TEST_P(SmallAttention, DocumentsHaveTheSameBitsEverywhere) {
  for (const Compute probabilities : kBoth) {
    Inputs x{GetParam(), probabilities};
    const std::vector<float> whole = x.forward<Bf16>();
    x.divide_into_documents(11);
    std::vector<float> want = x.forward<float>();
    const size_t outputs = static_cast<size_t>(x.rows * x.width);
    for (size_t i = 0; i < outputs; ++i) want[i] = bf16(want[i]);
    const std::vector<float> divided = x.forward<Bf16>();
    EXPECT_TRUE(same_bits(divided, want));
    EXPECT_NE(divided, whole);
    expect_same_everywhere(x);
  }
}

AttentionShape shape(int64_t sequences, int64_t length, int64_t first, int heads, int kv_heads,
                     int head_dim) {
  return {.sequences = sequences,
          .length = length,
          .kv_length = first + length,
          .kv_stride = first + length + 2,
          .first = first,
          .heads = heads,
          .kv_heads = kv_heads,
          .head_dim = head_dim};
}

AttentionShape with_window(AttentionShape shape, int64_t window) {
  shape.window = window;
  return shape;
}

// Those of 1,700: so wide that the sums of 64 keys at a time fit a worker's scratch: two bands. Of
// 1,100: the same with pairs of BF16 beside them.
INSTANTIATE_TEST_SUITE_P(Shapes, AttentionOf,
                         ::testing::Values(shape(1, 1, 0, 1, 1, 1), shape(2, 17, 0, 2, 2, 16),
                                           shape(1, 70, 5, 2, 1, 20), shape(1, 5, 70, 2, 1, 1700),
                                           shape(1, 9, 70, 1, 1, 1100),
                                           with_window(shape(1, 70, 5, 2, 1, 20), 9),
                                           with_window(shape(1, 90, 20, 2, 1, 1700), 30)));

INSTANTIATE_TEST_SUITE_P(Shapes, SmallAttention,
                         ::testing::Values(shape(2, 17, 0, 2, 2, 16), shape(1, 70, 5, 2, 1, 20),
                                           with_window(shape(1, 70, 5, 2, 1, 20), 9)));

/// Attention of one head of 16 within one tile, as it is defined with BF16 probabilities.
struct Definition {
  static constexpr int kDim = 16;
  const Inputs& x;
  std::vector<float> out{}, lse{}, dq{}, dk{}, dv{};

  /// One chain: start + Σ a(n) · b(n), n from first to last - 1.
  template <class A, class B>
  static float chain(int64_t first, int64_t last, const A& a, const B& b) {
    float sum = 0;
    for (int64_t n = first; n < last; ++n) sum = std::fma(a(n), b(n), sum);
    return sum;
  }
  static auto row(const MatrixOf<Bf16>& m, int64_t r) {
    return [&m, r](int64_t c) { return widened(m.at(r, c)); };
  }
  static auto column(const MatrixOf<Bf16>& m, int64_t c) {
    return [&m, c](int64_t r) { return widened(m.at(r, c)); };
  }
  static auto rounded(const std::vector<float>& weights) {
    return [&weights](int64_t n) { return bf16(weights[static_cast<size_t>(n)]); };
  }
  [[nodiscard]] float score(int64_t i, int64_t j) const {
    return chain(0, kDim, row(x.k, j), row(x.q, i));
  }

  void forward() {
    for (int64_t i = 0; i < x.rows; ++i) {
      float max = -kInf, sum = 0;
      for (int64_t j = 0; j <= i; ++j) max = std::max(max, score(i, j) * kScale);
      std::vector<float> p;
      for (int64_t j = 0; j <= i; ++j) sum += p.emplace_back(math::exp(shifted(i, j, max)));
      for (int c = 0; c < kDim; ++c)
        out.push_back(bf16(chain(0, i + 1, rounded(p), column(x.v, c)) / sum));
      lse.push_back(static_cast<float>(max + math::log(double{sum})));
    }
  }
  /// Of these outputs, all in BF16.
  void backward(const MatrixOf<Bf16>& o, const Matrix& log_sums) {
    const auto n = static_cast<size_t>(x.rows);
    std::vector<std::vector<float>> p(n), ds(n), p_of_key(n), ds_of_key(n);  // [i][j], [j][i]
    for (int64_t i = 0; i < x.rows; ++i) {
      const float mean = folded(row(x.dout, i), row(o, i));
      const auto at = static_cast<size_t>(i);
      for (int64_t j = 0; j < x.rows; ++j) {
        const float dp = chain(0, kDim, row(x.v, j), row(x.dout, i));
        p[at].push_back(j > i ? 0 : math::exp(shifted(i, j, log_sums.at(i, 0))));
        ds[at].push_back(p[at].back() * (dp - mean) * kScale);
        p_of_key[static_cast<size_t>(j)].push_back(p[at].back());
        ds_of_key[static_cast<size_t>(j)].push_back(ds[at].back());
      }
    }
    for (int64_t r = 0; r < x.rows; ++r) {
      const auto at = static_cast<size_t>(r);
      for (int c = 0; c < kDim; ++c) {
        dq.push_back(bf16(chain(0, r + 1, rounded(ds[at]), column(x.k, c))));
        dk.push_back(bf16(chain(r, x.rows, rounded(ds_of_key[at]), column(x.q, c))));
        dv.push_back(bf16(chain(r, x.rows, rounded(p_of_key[at]), column(x.dout, c))));
      }
    }
  }

 private:
  static constexpr float kScale = 0.25f;
  [[nodiscard]] float shifted(int64_t i, int64_t j, float by) const {
    return std::fma(score(i, j), kScale, -by);
  }
  /// Σ a(c) · b(c) over 16 lanes, folded in halves.
  template <class A, class B>
  static float folded(const A& a, const B& b) {
    float lane[kDim];
    for (int c = 0; c < kDim; ++c) lane[c] = a(c) * b(c);
    for (int half = kDim / 2; half > 0; half /= 2)
      for (int c = 0; c < half; ++c) lane[c] += lane[c + half];
    return lane[0];
  }
};

TEST(AttentionDefinition, IsThatOfBf16Probabilities) {
  AttentionShape one = shape(1, 50, 0, 1, 1, Definition::kDim);
  one.kv_stride = one.kv_length;
  Inputs x{one, Compute::bf16};
  const auto out = MatrixOf<Bf16>(x.rows, x.width).randomize(5);
  const Matrix lse = Matrix(x.rows, 1).randomize(6, 1, 3);
  Definition want{x};
  want.forward();
  want.backward(out, lse);
  EXPECT_TRUE(same_bits(x.forward<Bf16>(), joined({want.out, want.lse})));
  EXPECT_TRUE(same_bits(x.backward<Bf16>(out, lse), joined({want.dq, want.dk, want.dv})));
}

TEST(AttentionTypes, AllActivationsAreOfOne) {
  Workspace workspace(Threads{1});
  const AttentionShape one = shape(1, 1, 0, 1, 1, 4);
  Matrix out(1, 4), lse(1, 1);
  MatrixOf<Bf16> q(3, 4);
  const Attention op{.out = out.view(),
                     .lse = lse.view(),
                     .q = q.view().slice(0, 1),
                     .k = q.view(),
                     .v = q.view(),
                     .shape = one};
  EXPECT_THROW(perform(workspace, op), Unsupported);
}

}  // namespace
}  // namespace ng::cpu
