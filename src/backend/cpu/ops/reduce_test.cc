// Sums in FP64 follow the tree of recipes.md §0 bit for bit; column sums keep a derived bound.
#include "backend/cpu/ops/reduce.h"

#include "backend/cpu/kernel_testing.h"

namespace ng::cpu {
namespace {

// The tree from its definition: 16 lanes in chunks of 4,096, folds, then levels of pairs.
double tree(const std::vector<double>& x) {
  std::vector<double> sums;
  for (size_t begin = 0; begin < x.size(); begin += 4096) {
    double lane[16] = {};
    for (size_t i = begin; i < std::min(x.size(), begin + 4096); ++i)
      lane[(i - begin) % 16] += x[i];
    for (int width = 8; width >= 1; width /= 2)
      for (int l = 0; l < width; ++l) lane[l] += lane[l + width];
    sums.push_back(lane[0]);
  }
  while (sums.size() > 1) {
    std::vector<double> pairs;
    for (size_t i = 0; i < sums.size(); i += 2)
      pairs.push_back(i + 1 < sums.size() ? sums[i] + sums[i + 1] : sums[i]);
    sums = pairs;
  }
  return sums.empty() ? 0 : sums[0];
}

// A double as two floats of its bits, for comparing by bits.
std::vector<float> bits_of(double v) {
  const uint64_t bits = std::bit_cast<uint64_t>(v);
  return {std::bit_cast<float>(static_cast<uint32_t>(bits)),
          std::bit_cast<float>(static_cast<uint32_t>(bits >> 32))};
}

struct ReduceShape {
  int64_t rows, cols, gap;
};
class Reduce : public ::testing::TestWithParam<ReduceShape> {
 protected:
  ReduceShape s = GetParam();
  Matrix x = Matrix(s.rows, s.cols, s.gap).randomize(1);
};

template <class Stored>
void expect_sums_of_the_tree(const MatrixOf<Stored>& x) {
  double sum = 0, squares = 0;
  on_every_machine([&](Workspace& w) {
    sum = 1.5, squares = 2.5;
    perform(w, AddSum{.sum = &sum, .x = x.view()});
    perform(w, AddSumOfSquares{.sum = &squares, .x = x.view()});
    return joined({bits_of(sum), bits_of(squares)});
  });
  const std::vector<float> values = x.values();
  std::vector<double> terms(values.begin(), values.end());
  EXPECT_EQ(sum, 1.5 + tree(terms));
  for (double& v : terms) v *= v;
  EXPECT_EQ(squares, 2.5 + tree(terms));
}

TEST_P(Reduce, SumsFollowTheTree) {
  expect_sums_of_the_tree(x);
  expect_sums_of_the_tree(MatrixOf<Bf16>(x));
}

template <class Stored>
std::vector<float> column_sums(const MatrixOf<Stored>& x) {
  return on_every_machine([&](Workspace& w) {
    Matrix sums(1, x.view().cols);
    for (float& v : sums) v = 0.5f;
    perform(w, AddColumnSums{.sum = sums.view(), .x = x.view()});
    return sums.values();
  });
}

TEST_P(Reduce, ColumnSumsAreWithinTheirBound) {
  const std::vector<float> got = column_sums(x);
  for (int64_t c = 0; c < s.cols; ++c) {
    double want = 0.5, size = 0.5;
    for (int64_t r = 0; r < s.rows; ++r) want += x.at(r, c), size += std::fabs(x.at(r, c));
    ASSERT_LE(std::fabs(got[static_cast<size_t>(c)] - want),
              kEps * static_cast<double>(s.rows + 1) * size);
  }
}

TEST_P(Reduce, ColumnSumsReadBf16Exactly) {
  EXPECT_TRUE(same_bits(column_sums(MatrixOf<Bf16>(x)), column_sums(x.rounded())));
}

template <class Stored>
void expect_nonfinite(MatrixOf<Stored> x) {
  const auto [data, rows, cols, stride] = x.view();
  uint64_t want = 3;
  for (int64_t e = 0; e < rows * cols; e += 37) {
    const float v = e % 3 == 0 ? kNan : e % 3 == 1 ? kInf : -kInf;
    x.at(e / cols, e % cols) = stored_as<Stored>(v);
    ++want;
  }
  on_every_machine([&](Workspace& w) {
    uint64_t count = 3;
    perform(w, AddNonfinite{.count = &count, .x = x.view()});
    EXPECT_EQ(count, want);
    return std::vector<float>{};
  });
}

TEST_P(Reduce, CountsWhatIsNotFinite) {
  expect_nonfinite(x);
  expect_nonfinite(MatrixOf<Bf16>(x));
}

INSTANTIATE_TEST_SUITE_P(Shapes, Reduce,
                         ::testing::Values(ReduceShape{1, 1, 0}, ReduceShape{3, 17, 0},
                                           ReduceShape{5, 31, 2}, ReduceShape{1, 4097, 0},
                                           ReduceShape{700, 385, 1}, ReduceShape{1031, 777, 0},
                                           ReduceShape{9, 70001, 0}));

TEST(ReduceEdges, AnEmptyViewAddsNothing) {
  Workspace workspace(Threads{2});
  double sum = 1;
  uint64_t count = 1;
  float column = 1;
  perform(workspace, AddSum{.sum = &sum, .x = {}});
  perform(workspace, AddSumOfSquares{.sum = &sum, .x = {}});
  perform(workspace, AddNonfinite{.count = &count, .x = {}});
  perform(workspace, AddColumnSums{.sum = Rows<float>{&column, 1, 1, 1}, .x = {}});
  EXPECT_EQ(sum, 1);
  EXPECT_EQ(count, 1u);
  EXPECT_EQ(column, 1);
}

TEST(ReduceEdges, NanReachesTheSum) {
  Workspace workspace(Threads{1});
  Matrix x(1, 5000);
  x.at(0, 4999) = kNan;
  double sum = 0;
  perform(workspace, AddSumOfSquares{.sum = &sum, .x = x.view()});
  EXPECT_TRUE(std::isnan(sum));
}

}  // namespace
}  // namespace ng::cpu
