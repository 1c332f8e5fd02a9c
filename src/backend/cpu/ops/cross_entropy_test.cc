// Loss and gradient against double precision. The sum of exponentials carries min(V, 4096)/16 + 20
// roundings (the tree, exp, the fold) and the rounding of x - max, up to the range of the row.
#include "backend/cpu/ops/cross_entropy.h"

#include "backend/cpu/kernel_testing.h"

namespace ng::cpu {
namespace {

constexpr float kScale = 0.37f;

struct Case {
  int64_t rows, cols, gap;
  float deviation;
};

class Losses : public ::testing::TestWithParam<Case> {
 protected:
  Case c = GetParam();
  Matrix logits = Matrix(c.rows, c.cols, c.gap).randomize(1, c.deviation);
  std::vector<int32_t> targets;
  std::vector<float> mask;

  void SetUp() override {
    std::mt19937 rng(9);
    for (int64_t t = 0; t < c.rows; ++t) {
      targets.push_back(static_cast<int32_t>(rng() % static_cast<uint32_t>(c.cols)));
      mask.push_back(t % 3 == 1 ? 0.0f : 1.0f);
    }
    if (c.rows > 1) targets[1] = -1;  // masked: never looked at
  }
  // losses, then dlogits, of logits that are stored as Stored
  template <class Stored>
  std::vector<float> run(const Matrix& in) {
    return on_every_machine([&](Workspace& w) {
      MatrixOf<Stored> d(in);
      Matrix losses(1, c.rows), only(1, c.rows);
      const Rows<const float> weights{mask.data(), 1, c.rows, c.rows};
      perform(w,
              CrossEntropyLoss{
                  .logits = d.view(), .losses = only.view(), .targets = targets, .mask = weights});
      perform(w, CrossEntropy{.logits = d.view(),
                              .losses = losses.view(),
                              .targets = targets,
                              .mask = weights,
                              .scale = kScale});
      EXPECT_TRUE(same_bits(losses.values(), only.values()));
      EXPECT_TRUE(d.gaps_untouched());
      return joined({losses.values(), d.values()});
    });
  }
};

TEST_P(Losses, IsWithinItsBound) {
  const std::vector<float> got = run<float>(logits);
  for (int64_t t = 0; t < c.rows; ++t) {
    const size_t row = static_cast<size_t>(c.rows + t * c.cols);
    if (mask[static_cast<size_t>(t)] == 0) {
      EXPECT_EQ(got[static_cast<size_t>(t)], 0.0f);
      for (int64_t v = 0; v < c.cols; ++v) EXPECT_EQ(got[row + static_cast<size_t>(v)], 0.0f);
      continue;
    }
    const float* x = logits.view().row(t);
    const double largest = *std::max_element(x, x + c.cols);
    const double range = largest - *std::min_element(x, x + c.cols);
    double sum = 0;
    for (int64_t v = 0; v < c.cols; ++v) sum += std::exp(x[v] - largest);
    const int64_t target = targets[static_cast<size_t>(t)];
    const double loss = largest + std::log(sum) - x[target];
    const double share =
        kEps * (static_cast<double>(std::min<int64_t>(c.cols, 4096)) / 16 + 20 + range);
    EXPECT_LE(std::fabs(got[static_cast<size_t>(t)] - loss), share + kEps * std::fabs(loss));
    for (int64_t v = 0; v < c.cols; ++v) {
      const double p = std::exp(x[v] - largest) / sum;
      const double want = (p - (v == target ? 1 : 0)) * kScale;
      const double bound = p * (share + kEps * range) + kEps * 3 * std::fabs(want) + 0x1p-148;
      ASSERT_LE(std::fabs(got[row + static_cast<size_t>(v)] - want), bound) << t << " " << v;
    }
  }
}

TEST_P(Losses, Bf16RoundsInputsAndOutputOnce) {
  const std::vector<float> got = run<Bf16>(logits);
  std::vector<float> want = run<float>(logits.rounded());
  for (size_t i = static_cast<size_t>(c.rows); i < want.size(); ++i) want[i] = bf16(want[i]);
  EXPECT_TRUE(same_bits(got, want));
}

INSTANTIATE_TEST_SUITE_P(Shapes, Losses,
                         ::testing::Values(Case{1, 1, 0, 1}, Case{4, 65, 0, 2}, Case{7, 257, 3, 30},
                                           Case{2, 50257, 1, 3}, Case{1, (1 << 20) + 37, 0, 2}));

TEST(CrossEntropyEdges, KeepNanAndMasksNothingByDefault) {
  Workspace workspace(Threads{1});
  Matrix logits = Matrix(4, 70).randomize(1);
  logits.at(1, 69) = kNan;
  logits.at(2, 3) = kInf;
  for (int64_t v = 0; v < 70; ++v) logits.at(3, v) = v == 5 ? 0.0f : -kInf;
  const std::vector<int32_t> targets = {0, 1, 2, 5};
  Matrix losses(1, 4);
  perform(workspace,
          CrossEntropy{
              .logits = logits.view(), .losses = losses.view(), .targets = targets, .mask = {}});
  EXPECT_GT(losses.at(0, 0), 0);
  EXPECT_TRUE(std::isnan(losses.at(0, 1)) && std::isnan(logits.at(1, 0)));
  EXPECT_TRUE(std::isnan(losses.at(0, 2)));
  EXPECT_EQ(losses.at(0, 3), 0.0f);
  for (int64_t v = 0; v < 70; ++v) EXPECT_EQ(logits.at(3, v), 0.0f);
}

TEST(CrossEntropyEdges, ATargetOutsideTheVocabularyIsADefect) {
  Workspace workspace(Threads{2});
  Matrix logits(1, 4), losses(1, 1);
  for (const int32_t target : {-1, 4}) {
    const std::vector<int32_t> targets = {target};
    const CrossEntropy op{
        .logits = logits.view(), .losses = losses.view(), .targets = targets, .mask = {}};
    EXPECT_THROW(perform(workspace, op), InternalError);
  }
}

}  // namespace
}  // namespace ng::cpu
