// BF16 in memory against FP32 in memory, which the conformance suite compares with `ref`: inputs
// are read exactly, sums are the same, results are rounded once.
#include "backend/cpu/attention/attention.h"

#include "backend/backend.h"
#include "backend/cpu/kernel_testing.h"

namespace ng::cpu {
namespace {

class AttentionOf : public ::testing::TestWithParam<AttentionShape> {
 protected:
  AttentionShape s = GetParam();
  int64_t rows = s.sequences * s.length, kv_rows = s.sequences * s.kv_stride;
  int64_t width = int64_t{s.heads} * s.head_dim, kv_width = int64_t{s.kv_heads} * s.head_dim;
  MatrixOf<Bf16> q = MatrixOf<Bf16>(rows, width, 3).randomize(1);
  MatrixOf<Bf16> k = MatrixOf<Bf16>(kv_rows, kv_width, 1).randomize(2);
  MatrixOf<Bf16> v = MatrixOf<Bf16>(kv_rows, kv_width).randomize(3);
  MatrixOf<Bf16> dout = MatrixOf<Bf16>(rows, width, 2).randomize(4);

  // out, then lse
  template <class Stored>
  std::vector<float> forward() {
    const MatrixOf<Stored> queries(q), keys(k), values(v);
    return on_every_machine([&](Workspace& w) {
      MatrixOf<Stored> out(rows, width, 5);
      Matrix lse(rows, s.heads);
      perform(w, Attention{.out = out.view(),
                           .lse = lse.view(),
                           .q = queries.view(),
                           .k = keys.view(),
                           .v = values.view(),
                           .shape = s});
      EXPECT_TRUE(out.gaps_untouched());
      return joined({out.values(), lse.values()});
    });
  }
  // dq, dk, dv
  template <class Stored>
  std::vector<float> backward(const MatrixOf<Bf16>& result, const Matrix& lse) {
    const MatrixOf<Stored> queries(q), keys(k), values(v), slopes(dout), out(result);
    return on_every_machine([&](Workspace& w) {
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
                                   .shape = s});
      EXPECT_TRUE(dq.gaps_untouched() && dk.gaps_untouched() && dv.gaps_untouched());
      return joined({dq.values(), dk.values(), dv.values()});
    });
  }
};

TEST_P(AttentionOf, Bf16RoundsResultsOnce) {
  std::vector<float> want = forward<float>();
  const size_t outputs = static_cast<size_t>(rows * width);
  for (size_t i = 0; i < outputs; ++i) want[i] = bf16(want[i]);  // lse stays FP32
  EXPECT_TRUE(same_bits(forward<Bf16>(), want));
}

TEST_P(AttentionOf, Bf16GradientsAreSumsRoundedOnce) {
  const auto out = MatrixOf<Bf16>(rows, width).randomize(5);
  const Matrix lse = Matrix(rows, s.heads).randomize(6, 1, 3);
  EXPECT_TRUE(same_bits(backward<Bf16>(out, lse), bf16(backward<float>(out, lse))));
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

// Those of 1,700: so wide that the sums of 64 keys at a time fit a worker's scratch: two bands.
INSTANTIATE_TEST_SUITE_P(Shapes, AttentionOf,
                         ::testing::Values(shape(1, 1, 0, 1, 1, 1), shape(2, 17, 0, 2, 2, 16),
                                           shape(1, 70, 5, 2, 1, 20), shape(1, 5, 70, 2, 1, 1700),
                                           with_window(shape(1, 70, 5, 2, 1, 20), 9),
                                           with_window(shape(1, 90, 20, 2, 1, 1700), 30)));

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
