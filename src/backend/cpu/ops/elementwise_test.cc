// Elementwise operations are exact or rounded once: compared by bits.
#include "backend/cpu/ops/elementwise.h"

#include "backend/cpu/kernel_testing.h"
#include "math/normal.h"

namespace ng::cpu {
namespace {

struct Shape {
  int64_t rows, cols, gap;
};
class Elementwise : public ::testing::TestWithParam<Shape> {
 protected:
  Shape s = GetParam();
  Matrix a = Matrix(s.rows, s.cols, s.gap).randomize(1);
  Matrix b = Matrix(s.rows, s.cols, s.gap).randomize(2);
  [[nodiscard]] Matrix blank() const { return {s.rows, s.cols, s.gap}; }
};

TEST_P(Elementwise, AddRoundsOnce) {
  for (const Compute compute : {Compute::fp32, Compute::bf16}) {
    const auto read = [&](float v) { return compute == Compute::bf16 ? bf16(v) : v; };
    const std::vector<float> got = on_every_machine([&](Workspace& w) {
      Matrix y = blank();
      add(w, y.view(), a.view(), b.view(), compute);
      EXPECT_TRUE(y.gaps_untouched());
      return y.values();
    });
    const std::vector<float> x = a.values(), z = b.values();
    for (size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], read(read(x[i]) + read(z[i])));
  }
}

TEST_P(Elementwise, FillAndCopyWriteEveryElement) {
  const std::vector<float> got = on_every_machine([&](Workspace& w) {
    Matrix filled = blank(), copied = blank();
    fill(w, filled.view(), 2.5f);
    copy(w, copied.view(), a.view());
    EXPECT_TRUE(filled.gaps_untouched() && copied.gaps_untouched());
    return joined({filled.values(), copied.values()});
  });
  const std::vector<float> all(a.values().size(), 2.5f);
  EXPECT_TRUE(same_bits(got, joined({all, a.values()})));
}

TEST_P(Elementwise, NormalIsElementByElement) {
  const RandomKey key{.seed = 5, .tensor = 9, .step = 0, .purpose = Purpose::init, .micro = 0};
  const std::vector<float> got = on_every_machine([&](Workspace& w) {
    Matrix x = blank();
    fill_normal(w, x.view(), 0.02f, key);
    EXPECT_TRUE(x.gaps_untouched());
    return x.values();
  });
  for (size_t e = 0; e < got.size(); ++e) ASSERT_EQ(got[e], math::normal(key, e, 0.02f)) << e;
}

INSTANTIATE_TEST_SUITE_P(Shapes, Elementwise,
                         ::testing::Values(Shape{1, 1, 0}, Shape{3, 17, 0}, Shape{5, 31, 2},
                                           Shape{2, 20011, 0}, Shape{3, 20011, 1}));

TEST(ElementwiseEdges, EmptyViewsAreFine) {
  Workspace workspace(Threads{2});
  fill(workspace, {}, 1);
  copy(workspace, {}, {});
  add(workspace, {}, {}, {}, Compute::fp32);
  fill_normal(workspace, {}, 1, {});
}

}  // namespace
}  // namespace ng::cpu
