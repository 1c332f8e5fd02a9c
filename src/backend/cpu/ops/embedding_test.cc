// Embedding and rotary tables: sums have a fixed order, so results are compared by bits.
#include "backend/cpu/ops/embedding.h"

#include "backend/cpu/kernel_testing.h"

namespace ng::cpu {
namespace {

constexpr Positions kAt{.sequences = 3, .length = 5, .first = 2};
const std::vector<int32_t> kIds = {0, 3, 3, 10, 1, 3, 0, 0, 7, 10, 10, 2, 3, 3, 0};

class Embedding : public ::testing::TestWithParam<int64_t> {
 protected:
  int64_t cols = GetParam();
  Matrix tokens = Matrix(11, cols, 2).randomize(1);
  Matrix positions = Matrix(8, cols, 1).randomize(2);
  Matrix dy = Matrix(15, cols, 3).randomize(3);
};

// Every float that `Stored` rounds is rounded from the definition.
template <class Stored>
float rounded(float v) {
  return value_of(stored_as<Stored>(v));
}

template <class Stored>
void expect_embedding(const Matrix& tokens, const Matrix& positions, bool with_positions) {
  const int64_t cols = tokens.view().cols;
  const std::vector<float> got = on_every_machine([&](Workspace& w) {
    MatrixOf<Stored> y(15, cols, 4);
    const ConstView p = with_positions ? ConstView(positions.view()) : ConstView{};
    perform(w,
            Embed{.y = y.view(), .ids = kIds, .tokens = tokens.view(), .positions = p, .at = kAt});
    EXPECT_TRUE(y.gaps_untouched());
    return y.values();
  });
  for (int64_t t = 0; t < 15; ++t)
    for (int64_t c = 0; c < cols; ++c) {
      float want = rounded<Stored>(tokens.at(kIds[static_cast<size_t>(t)], c));
      if (with_positions) want += rounded<Stored>(positions.at(2 + t % 5, c));
      ASSERT_EQ(got[static_cast<size_t>(t * cols + c)], rounded<Stored>(want)) << t << " " << c;
    }
}

TEST_P(Embedding, IsTokenPlusPosition) {
  for (const bool with_positions : {true, false}) {
    expect_embedding<float>(tokens, positions, with_positions);
    expect_embedding<Bf16>(tokens, positions, with_positions);
  }
}

template <class Stored>
void expect_embedding_backward(const MatrixOf<Stored>& dy) {
  const int64_t cols = dy.view().cols;
  const Matrix dtokens = Matrix(11, cols, 2).randomize(4);
  const Matrix dpositions = Matrix(8, cols).randomize(5);
  Matrix want_tokens = dtokens, want_positions = dpositions;
  for (int64_t t = 0; t < 15; ++t)
    for (int64_t c = 0; c < cols; ++c) {
      want_tokens.at(kIds[static_cast<size_t>(t)], c) += value_of(dy.at(t, c));
      want_positions.at(2 + t % 5, c) += value_of(dy.at(t, c));
    }
  const std::vector<float> got = on_every_machine([&](Workspace& w) {
    Matrix dt = dtokens, dp = dpositions;
    perform(w, EmbedBackward{.dtokens = dt.view(),
                             .dpositions = dp.view(),
                             .dy = dy.view(),
                             .ids = kIds,
                             .at = kAt});
    EXPECT_TRUE(dt.gaps_untouched());
    return joined({dt.values(), dp.values()});
  });
  EXPECT_TRUE(same_bits(got, joined({want_tokens.values(), want_positions.values()})));
}

TEST_P(Embedding, BackwardAddsTokensInOrder) {
  expect_embedding_backward(dy);
  expect_embedding_backward(MatrixOf<Bf16>(dy));
}

INSTANTIATE_TEST_SUITE_P(Widths, Embedding, ::testing::Values(1, 16, 67, 200));

TEST(EmbeddingIds, OutsideTheTableAreADefect) {
  Workspace workspace(Threads{1});
  Matrix tokens(4, 8), y(1, 8);
  const Positions at{.sequences = 1, .length = 1, .first = 0};
  for (const int32_t id : {-1, 4}) {
    const std::vector<int32_t> ids = {id};
    const Embed forward{
        .y = y.view(), .ids = ids, .tokens = tokens.view(), .positions = {}, .at = at};
    EXPECT_THROW(perform(workspace, forward), InternalError);
    const EmbedBackward backward{
        .dtokens = tokens.view(), .dpositions = {}, .dy = y.view(), .ids = ids, .at = at};
    EXPECT_THROW(perform(workspace, backward), InternalError);
  }
}

// Angles up to 4,000 are computed in double: one rounding to FP32, and 1e-11 of absolute error.
TEST(Rotary, TableHoldsCosineAndSine) {
  for (const float theta : {10000.0f, 500000.0f})
    for (const int64_t head_dim : {2, 6, 64, 128}) {
      const std::vector<float> got = on_every_machine([&](Workspace& w) {
        Matrix table(4001, head_dim, 1);
        perform(w, RopeTable{.table = table.view(), .theta = theta});
        return table.values();
      });
      for (int64_t p = 0; p <= 4000; p += 97)
        for (int64_t i = 0; i < head_dim / 2; ++i) {
          const long double power = -2.0L * static_cast<long double>(i) / head_dim;
          const long double angle = p * std::pow(static_cast<long double>(theta), power);
          const size_t at = static_cast<size_t>(p * head_dim + i);
          EXPECT_NEAR(got[at], static_cast<double>(std::cos(angle)), kEps + 1e-11);
          EXPECT_NEAR(got[at + static_cast<size_t>(head_dim / 2)],
                      static_cast<double>(std::sin(angle)), kEps + 1e-11);
        }
    }
}

template <class Stored>
void expect_turned(int head_dim, bool inverse) {
  constexpr int kHeads = 3;
  const Matrix table = Matrix(8, head_dim).randomize(1);
  const auto x = MatrixOf<Stored>(15, kHeads * head_dim, 5).randomize(2);
  const std::vector<float> got = on_every_machine([&](Workspace& w) {
    MatrixOf<Stored> y = x;
    perform(w, Rope{.x = y.view(),
                    .table = table.view(),
                    .at = kAt,
                    .head_dim = head_dim,
                    .inverse = inverse});
    EXPECT_TRUE(y.gaps_untouched());
    return y.values();
  });
  const int half = head_dim / 2;
  for (int64_t t = 0; t < 15; ++t)
    for (int h = 0; h < kHeads; ++h)
      for (int i = 0; i < half; ++i) {
        const float a = value_of(x.at(t, h * head_dim + i));
        const float b = value_of(x.at(t, h * head_dim + half + i));
        const float cosine = rounded<Stored>(table.at(2 + t % 5, i));
        const float sine =
            rounded<Stored>(table.at(2 + t % 5, half + i)) * (inverse ? -1.0f : 1.0f);
        const size_t at = static_cast<size_t>(t * kHeads * head_dim + h * head_dim + i);
        ASSERT_EQ(got[at], rounded<Stored>(a * cosine - b * sine));
        ASSERT_EQ(got[at + static_cast<size_t>(half)], rounded<Stored>(b * cosine + a * sine));
      }
}

TEST(Rotary, TurnsPairsOfEveryHead) {
  for (const int head_dim : {2, 10, 32, 70})
    for (const bool inverse : {false, true}) {
      expect_turned<float>(head_dim, inverse);
      expect_turned<Bf16>(head_dim, inverse);
    }
}

}  // namespace
}  // namespace ng::cpu
