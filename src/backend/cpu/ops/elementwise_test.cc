// Elementwise operations are exact or rounded once: compared by bits.
#include "backend/cpu/ops/elementwise.h"

#include "backend/backend.h"
#include "backend/cpu/kernel_testing.h"
#include "math/normal.h"

namespace ng::cpu {
namespace {

struct ElementwiseShape {
  int64_t rows, cols, gap;
};
class Elementwise : public ::testing::TestWithParam<ElementwiseShape> {
 protected:
  ElementwiseShape s = GetParam();
  Matrix a = Matrix(s.rows, s.cols, s.gap).randomize(1);
  Matrix b = Matrix(s.rows, s.cols, s.gap).randomize(2);
  template <class Stored = float>
  [[nodiscard]] MatrixOf<Stored> blank() const {
    return {s.rows, s.cols, s.gap};
  }

  // An output in BF16 reads what is stored as FP32 rounded.
  template <class Y, class A, class B>
  void expect_sums() {
    const auto round = [](float v) { return value_of(stored_as<Y>(v)); };
    const MatrixOf<A> x(a);
    const MatrixOf<B> z(b);
    const std::vector<float> got = on_every_machine([&](Workspace& w) {
      auto y = blank<Y>();
      perform(w, Add{.y = y.view(), .a = x.view(), .b = z.view()});
      EXPECT_TRUE(y.gaps_untouched());
      return y.values();
    });
    const std::vector<float> xs = x.values(), zs = z.values();
    for (size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], round(round(xs[i]) + round(zs[i])));
  }
  template <class Y, class X>
  void expect_copy() {
    const MatrixOf<X> x(a);
    const std::vector<float> got = on_every_machine([&](Workspace& w) {
      auto y = blank<Y>();
      perform(w, Copy{.y = y.view(), .x = x.view()});
      EXPECT_TRUE(y.gaps_untouched());
      return y.values();
    });
    EXPECT_TRUE(same_bits(got, MatrixOf<Y>(x).values()));
  }
  template <class Stored>
  void expect_fill() {
    const std::vector<float> got = on_every_machine([&](Workspace& w) {
      auto x = blank<Stored>();
      perform(w, Fill{.x = x.view(), .value = 2.51f});
      EXPECT_TRUE(x.gaps_untouched());
      return x.values();
    });
    for (const float v : got) ASSERT_EQ(v, value_of(stored_as<Stored>(2.51f)));
  }
};

TEST_P(Elementwise, AddRoundsOnce) {
  expect_sums<float, float, float>();
  expect_sums<float, float, Bf16>();
  expect_sums<float, Bf16, float>();
  expect_sums<float, Bf16, Bf16>();
  expect_sums<Bf16, float, float>();
  expect_sums<Bf16, float, Bf16>();
  expect_sums<Bf16, Bf16, float>();
  expect_sums<Bf16, Bf16, Bf16>();
}

TEST_P(Elementwise, CopyRoundsToWhatIsStored) {
  expect_copy<float, float>();
  expect_copy<float, Bf16>();
  expect_copy<Bf16, float>();
  expect_copy<Bf16, Bf16>();
}

TEST_P(Elementwise, FillWritesEveryElement) {
  expect_fill<float>();
  expect_fill<Bf16>();
}

TEST_P(Elementwise, NormalIsElementByElement) {
  const RandomKey key{.seed = 5, .tensor = 9, .step = 0, .purpose = Purpose::init, .micro = 0};
  const std::vector<float> got = on_every_machine([&](Workspace& w) {
    Matrix x = blank();
    perform(w, FillNormal{.x = x.view(), .deviation = 0.02f, .key = key});
    EXPECT_TRUE(x.gaps_untouched());
    return x.values();
  });
  for (size_t e = 0; e < got.size(); ++e) ASSERT_EQ(got[e], math::normal(key, e, 0.02f)) << e;
}

INSTANTIATE_TEST_SUITE_P(Shapes, Elementwise,
                         ::testing::Values(ElementwiseShape{1, 1, 0}, ElementwiseShape{3, 17, 0},
                                           ElementwiseShape{5, 31, 2},
                                           ElementwiseShape{2, 20011, 0},
                                           ElementwiseShape{3, 20011, 1}));

TEST(ElementwiseEdges, EmptyViewsAreFine) {
  Workspace workspace(Threads{2});
  perform(workspace, Fill{});
  perform(workspace, Copy{});
  perform(workspace, Add{});
  perform(workspace, FillNormal{});
}

TEST(ElementwiseEdges, OtherTypesAreRefusedByName) {
  Workspace workspace(Threads{1});
  std::byte codes[4] = {};
  const View x{codes, element_format("float8_e4m3fn"), 1, 4, 4};
  Matrix y(1, 4);
  try {
    perform(workspace, Add{.y = y.view(), .a = x, .b = y.view()});
    FAIL();
  } catch (const Unsupported& error) {
    EXPECT_STREQ(error.what(), "cpu: add of float8_e4m3fn");
  }
  MatrixOf<Bf16> narrow(1, 4);
  EXPECT_THROW(perform(workspace, FillNormal{.x = narrow.view(), .key = {}}), Unsupported);
}

}  // namespace
}  // namespace ng::cpu
