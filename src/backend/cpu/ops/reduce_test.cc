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

struct Shape {
  int64_t rows, cols, gap;
};
class Reduce : public ::testing::TestWithParam<Shape> {
 protected:
  Shape s = GetParam();
  Matrix x = Matrix(s.rows, s.cols, s.gap).randomize(1);
};

TEST_P(Reduce, SumsFollowTheTree) {
  double sum = 0, squares = 0;
  on_every_machine([&](Workspace& w) {
    sum = 1.5, squares = 2.5;
    add_sum(w, &sum, x.view());
    add_sum_of_squares(w, &squares, x.view());
    return joined({bits_of(sum), bits_of(squares)});
  });
  const std::vector<float> values = x.values();
  std::vector<double> terms(values.begin(), values.end());
  EXPECT_EQ(sum, 1.5 + tree(terms));
  for (double& v : terms) v *= v;
  EXPECT_EQ(squares, 2.5 + tree(terms));
}

TEST_P(Reduce, ColumnSumsAreWithinTheirBound) {
  const std::vector<float> got = on_every_machine([&](Workspace& w) {
    std::vector<float> sums(static_cast<size_t>(s.cols), 0.5f);
    add_column_sums(w, sums.data(), x.view());
    return sums;
  });
  for (int64_t c = 0; c < s.cols; ++c) {
    double want = 0.5, size = 0.5;
    for (int64_t r = 0; r < s.rows; ++r) want += x.at(r, c), size += std::fabs(x.at(r, c));
    ASSERT_LE(std::fabs(got[static_cast<size_t>(c)] - want),
              kEps * static_cast<double>(s.rows + 1) * size);
  }
}

TEST_P(Reduce, CountsWhatIsNotFinite) {
  const int64_t size = s.rows * s.cols;
  uint64_t want = 3;
  for (int64_t e = 0; e < size; e += 37) {
    x.at(e / s.cols, e % s.cols) = e % 3 == 0 ? kNan : e % 3 == 1 ? kInf : -kInf;
    ++want;
  }
  on_every_machine([&](Workspace& w) {
    uint64_t count = 3;
    add_nonfinite(w, &count, x.view());
    EXPECT_EQ(count, want);
    return std::vector<float>{};
  });
}

INSTANTIATE_TEST_SUITE_P(Shapes, Reduce,
                         ::testing::Values(Shape{1, 1, 0}, Shape{3, 17, 0}, Shape{5, 31, 2},
                                           Shape{1, 4097, 0}, Shape{700, 385, 1},
                                           Shape{1031, 777, 0}, Shape{9, 70001, 0}));

TEST(ReduceEdges, AnEmptyViewAddsNothing) {
  Workspace workspace(Threads{2});
  double sum = 1;
  uint64_t count = 1;
  float column = 1;
  add_sum(workspace, &sum, {});
  add_sum_of_squares(workspace, &sum, {});
  add_nonfinite(workspace, &count, {});
  add_column_sums(workspace, &column, ConstView{nullptr, 0, 1, 1});
  EXPECT_EQ(sum, 1);
  EXPECT_EQ(count, 1u);
  EXPECT_EQ(column, 1);
}

TEST(ReduceEdges, NanReachesTheSum) {
  Workspace workspace(Threads{1});
  Matrix x(1, 5000);
  x.at(0, 4999) = kNan;
  double sum = 0;
  add_sum_of_squares(workspace, &sum, x.view());
  EXPECT_TRUE(std::isnan(sum));
}

}  // namespace
}  // namespace ng::cpu
