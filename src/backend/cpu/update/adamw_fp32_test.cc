// The optimizer step is the formula of recipes.md §6 with every operation rounded: equal bits.
#include "backend/cpu/update/adamw_fp32.h"

#include "backend/cpu/kernel_testing.h"
#include "backend/cpu/update/update.h"

namespace ng::cpu {
namespace {

struct Shape {
  int64_t rows, cols, gap;
};
class AdamWStep : public ::testing::TestWithParam<Shape> {
 protected:
  Shape s = GetParam();
  Matrix w = Matrix(s.rows, s.cols, s.gap).randomize(1);
  Matrix m = Matrix(s.rows, s.cols, s.gap).randomize(2, 0.1f);
  Matrix v = Matrix(s.rows, s.cols, s.gap).randomize(3, 0.1f);
  Matrix g = Matrix(s.rows, s.cols, s.gap).randomize(4);
  StepControl control{.loss = 1, .grad_norm = 1, .grad_scale = 0.7f, .skip = 0};

  void SetUp() override {
    for (float& x : v) x *= x;
  }
  template <class Stored>
  std::vector<float> step(const MatrixOf<Stored>& grad) {
    return on_every_machine([&](Workspace& workspace) {
      Matrix w1 = w, m1 = m, v1 = v;
      const Update op{.weight = {.value = stored_plainly(w1.view())},
                      .moment1 = stored_plainly(m1.view()),
                      .moment2 = stored_plainly(v1.view()),
                      .grad = grad.view(),
                      .numbers = {.lr = 3e-3f,
                                  .beta1 = 0.9f,
                                  .beta2 = 0.95f,
                                  .eps = 1e-8f,
                                  .weight_decay = 0.1f,
                                  .correction1 = 0.271f,
                                  .correction2 = 0.142625f},
                      .control = &control};
      EXPECT_TRUE(is_adamw_in_fp32(op));
      perform(workspace, op);
      EXPECT_TRUE(w1.gaps_untouched() && m1.gaps_untouched() && v1.gaps_untouched());
      return joined({w1.values(), m1.values(), v1.values()});
    });
  }
};

TEST_P(AdamWStep, IsTheFormula) {
  const std::vector<float> got = step(g);
  const std::vector<float> ws = w.values(), ms = m.values(), vs = v.values(), gs = g.values();
  const size_t n = ws.size();
  for (size_t i = 0; i < n; ++i) {
    const float grad = gs[i] * 0.7f;
    const float m1 = 0.9f * ms[i] + (1 - 0.9f) * grad;
    const float v1 = 0.95f * vs[i] + (1 - 0.95f) * (grad * grad);
    const float w1 =
        ws[i] * (1 - 3e-3f * 0.1f) - (3e-3f * (m1 / 0.271f)) / (std::sqrt(v1 / 0.142625f) + 1e-8f);
    ASSERT_EQ(got[i], w1);
    ASSERT_EQ(got[n + i], m1);
    ASSERT_EQ(got[2 * n + i], v1);
  }
}

// With v̂ = 1 and w = 0 the new weight is -m̂: what stands for a division by a step's constant must
// be one to the last bit. All significands, four constants of a training's first steps and late.
TEST(AdamWDivision, IsCorrectlyRounded) {
  constexpr int64_t kSignificands = 1 << 23;
  const bool is_wide = supported_isas().size() > 1;
  Workspace workspace({1});
  for (const float correction : {0.1f, 1 - 0.9f * 0.9f, 0.40951f, 0.99995f, 0.001f}) {
    Matrix g(1, is_wide ? kSignificands : 1 << 16), m = g, v = g, w = g;
    for (int64_t i = 0; i < g.view().cols; ++i) {
      g.at(0, i) = std::bit_cast<float>(static_cast<uint32_t>(0x3F800000 + i));
      v.at(0, i) = correction;
    }
    perform(workspace, Update{.weight = {.value = stored_plainly(w.view())},
                              .moment1 = stored_plainly(m.view()),
                              .moment2 = stored_plainly(v.view()),
                              .grad = g.view(),
                              .numbers = {.lr = 1,
                                          .beta1 = 0,
                                          .beta2 = 1,
                                          .correction1 = correction,
                                          .correction2 = correction}});
    for (int64_t i = 0; i < g.view().cols; ++i)
      ASSERT_EQ(w.at(0, i), -(g.at(0, i) / correction)) << i << " " << correction;
  }
}

TEST_P(AdamWStep, ReadsBf16GradientsExactly) {
  EXPECT_TRUE(same_bits(step(MatrixOf<Bf16>(g)), step(g.rounded())));
}

TEST_P(AdamWStep, ASkippedStepChangesNothing) {
  control.skip = 1;
  control.grad_scale = kNan;
  EXPECT_TRUE(same_bits(step(g), joined({w.values(), m.values(), v.values()})));
}

INSTANTIATE_TEST_SUITE_P(Shapes, AdamWStep,
                         ::testing::Values(Shape{1, 1, 0}, Shape{3, 17, 0}, Shape{5, 31, 2},
                                           Shape{3, 20011, 0}));

}  // namespace
}  // namespace ng::cpu
