// Activations against double precision, bounds from the error of our exp and Φ (math/exp.h, erf.h)
// and one rounding per operation.
#include "backend/cpu/ops/activation.h"

#include "backend/backend.h"
#include "backend/cpu/kernel_testing.h"

namespace ng::cpu {
namespace {

constexpr double kTiny = 0x1p-140;  // subnormal results carry an absolute error
const double kSqrtTwoOverPi = std::sqrt(2 / std::acos(-1.0));

// Argument of the sigmoid in GELU's tanh form, and its derivative.
double twice_u(double x) { return 2 * kSqrtTwoOverPi * (x + 0.044715 * x * x * x); }
double twice_u_slope(double x) { return 2 * kSqrtTwoOverPi * (1 + 3 * 0.044715 * x * x); }
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double cdf(double x) { return 0.5 * std::erfc(-x * std::sqrt(0.5)); }
double density(double x) { return std::exp(-0.5 * x * x) / std::sqrt(2 * std::acos(-1.0)); }

// Values everywhere an activation bends, and far out.
Matrix wide(int64_t rows, int64_t cols, int64_t gap, uint32_t seed) {
  Matrix x(rows, cols, gap);
  x.randomize(seed, 3);
  for (int64_t c = 0; c < cols; c += 7) x.at(0, c) = static_cast<float>(c) * 0.9f - 60.0f;
  return x;
}

struct Shape {
  int64_t rows, cols, gap;
};
class Activation : public ::testing::TestWithParam<Shape> {
 protected:
  Shape shape = GetParam();
  Matrix x = wide(shape.rows, shape.cols, shape.gap, 1);
  Matrix up = wide(shape.rows, shape.cols, shape.gap, 2);
  Matrix dy = wide(shape.rows, shape.cols, shape.gap, 3);
  Matrix blank{shape.rows, shape.cols, shape.gap};

  // Inputs and outputs stored as Stored.
  template <class Stored>
  std::vector<float> gelu_of(const Matrix& in, GeluKind kind) {
    const MatrixOf<Stored> from(in);
    return on_every_machine([&](Workspace& w) {
      MatrixOf<Stored> y(blank);
      perform(w, Gelu{.y = y.view(), .x = from.view(), .kind = kind});
      EXPECT_TRUE(y.gaps_untouched());
      return y.values();
    });
  }
  template <class Stored>
  std::vector<float> gelu_backward_of(const Matrix& d, const Matrix& in, GeluKind kind) {
    const MatrixOf<Stored> slopes(d), from(in);
    return on_every_machine([&](Workspace& w) {
      MatrixOf<Stored> dx(blank);
      perform(w,
              GeluBackward{.dx = dx.view(), .dy = slopes.view(), .x = from.view(), .kind = kind});
      EXPECT_TRUE(dx.gaps_untouched());
      return dx.values();
    });
  }
  template <class Stored>
  std::vector<float> swiglu_of(const Matrix& g, const Matrix& u) {
    const MatrixOf<Stored> gate(g), with(u);
    return on_every_machine([&](Workspace& w) {
      MatrixOf<Stored> y(blank);
      perform(w, Swiglu{.y = y.view(), .gate = gate.view(), .up = with.view()});
      EXPECT_TRUE(y.gaps_untouched());
      return y.values();
    });
  }
  // dgate, then dup
  template <class Stored>
  std::vector<float> swiglu_backward_of(const Matrix& d, const Matrix& g, const Matrix& u) {
    const MatrixOf<Stored> slopes(d), gate(g), with(u);
    return on_every_machine([&](Workspace& w) {
      MatrixOf<Stored> dgate(blank), dup(blank);
      perform(w, SwigluBackward{.dgate = dgate.view(),
                                .dup = dup.view(),
                                .dy = slopes.view(),
                                .gate = gate.view(),
                                .up = with.view()});
      EXPECT_TRUE(dgate.gaps_untouched() && dup.gaps_untouched());
      return joined({dgate.values(), dup.values()});
    });
  }
};

TEST_P(Activation, GeluIsWithinItsBound) {
  const std::vector<float> in = x.values();
  const std::vector<float> tanh = gelu_of<float>(x, GeluKind::tanh);
  const std::vector<float> erf = gelu_of<float>(x, GeluKind::erf);
  for (size_t i = 0; i < in.size(); ++i) {
    const double v = in[i], z = twice_u(v), s = sigmoid(z);
    // 5 roundings in z move the sigmoid by a share (1 - s)·|z|·5 eps.
    EXPECT_LE(std::fabs(tanh[i] - v * s),
              std::fabs(v * s) * kEps * (8 + 6 * (1 - s) * std::fabs(z)) + kTiny)
        << v;
    EXPECT_LE(std::fabs(erf[i] - v * cdf(v)), std::fabs(v * cdf(v)) * kEps * 7 + kTiny) << v;
  }
}

TEST_P(Activation, GeluBackwardIsWithinItsBound) {
  const std::vector<float> in = x.values(), d = dy.values();
  const std::vector<float> tanh = gelu_backward_of<float>(dy, x, GeluKind::tanh);
  const std::vector<float> erf = gelu_backward_of<float>(dy, x, GeluKind::erf);
  for (size_t i = 0; i < in.size(); ++i) {
    const double v = in[i], z = twice_u(v), s = sigmoid(z);
    const double bend = v * twice_u_slope(v) * s * (1 - s);
    const double share = kEps * (12 + 6 * std::fabs(z));
    EXPECT_LE(std::fabs(tanh[i] - d[i] * (s + bend)),
              std::fabs(d[i]) * (s + std::fabs(bend)) * share + kTiny)
        << v;
    const double slope = cdf(v) + v * density(v);
    const double terms = cdf(v) + std::fabs(v * density(v));
    EXPECT_LE(std::fabs(erf[i] - d[i] * slope), std::fabs(d[i]) * terms * kEps * 8 + kTiny) << v;
  }
}

TEST_P(Activation, SwigluIsWithinItsBound) {
  const std::vector<float> g = x.values(), u = up.values(), d = dy.values();
  const std::vector<float> y = swiglu_of<float>(x, up);
  const std::vector<float> back = swiglu_backward_of<float>(dy, x, up);
  const size_t n = g.size();
  for (size_t i = 0; i < n; ++i) {
    const double s = sigmoid(g[i]), silu = g[i] * s, bend = silu * (1 - s);
    EXPECT_LE(std::fabs(y[i] - silu * u[i]), std::fabs(silu * u[i]) * kEps * 8 + kTiny);
    EXPECT_LE(std::fabs(back[n + i] - d[i] * silu), std::fabs(d[i] * silu) * kEps * 8 + kTiny);
    EXPECT_LE(std::fabs(back[i] - 1.0 * d[i] * u[i] * (s + bend)),
              std::fabs(1.0 * d[i] * u[i]) * (s + std::fabs(bend)) * kEps * 12 + kTiny);
  }
}

TEST_P(Activation, Bf16RoundsInputsAndOutputOnce) {
  const Matrix xr = x.rounded(), ur = up.rounded(), dr = dy.rounded();
  for (const GeluKind kind : {GeluKind::tanh, GeluKind::erf}) {
    EXPECT_TRUE(same_bits(gelu_of<Bf16>(x, kind), bf16(gelu_of<float>(xr, kind))));
    EXPECT_TRUE(same_bits(gelu_backward_of<Bf16>(dy, x, kind),
                          bf16(gelu_backward_of<float>(dr, xr, kind))));
  }
  EXPECT_TRUE(same_bits(swiglu_of<Bf16>(x, up), bf16(swiglu_of<float>(xr, ur))));
  EXPECT_TRUE(
      same_bits(swiglu_backward_of<Bf16>(dy, x, up), bf16(swiglu_backward_of<float>(dr, xr, ur))));
}

INSTANTIATE_TEST_SUITE_P(Shapes, Activation,
                         ::testing::Values(Shape{1, 1, 0}, Shape{3, 17, 0}, Shape{5, 31, 2},
                                           Shape{2, 20011, 0}, Shape{2, 20011, 5},
                                           Shape{130, 257, 0}));

TEST(Activations, KeepNanAndSaturate) {
  Matrix x(1, 6), dy(1, 6);
  const float big = std::numeric_limits<float>::max();
  const std::vector<float> in = {kNan, big, -big, 1e20f, -1e20f, kInf};
  for (int64_t c = 0; c < 6; ++c) x.at(0, c) = in[static_cast<size_t>(c)], dy.at(0, c) = 1;
  Workspace workspace(Threads{1});
  for (const GeluKind kind : {GeluKind::tanh, GeluKind::erf}) {
    Matrix y(1, 6), dx(1, 6);
    perform(workspace, Gelu{.y = y.view(), .x = x.view(), .kind = kind});
    perform(workspace, GeluBackward{.dx = dx.view(), .dy = dy.view(), .x = x.view(), .kind = kind});
    EXPECT_TRUE(same_bits(y.values(), {kNan, big, -0.0f, 1e20f, -0.0f, kInf}));
    dx.at(0, 5) = 1;      // inf · 0 in the derivative at infinity
    dx.at(0, 2) += 0.0f;  // the sign of a zero slope is free
    dx.at(0, 4) += 0.0f;
    EXPECT_TRUE(same_bits(dx.values(), {kNan, 1, 0, 1, 0, 1}));
  }
  Matrix y(1, 6);
  perform(workspace, Swiglu{.y = y.view(), .gate = x.view(), .up = dy.view()});
  EXPECT_TRUE(same_bits(y.values(), {kNan, big, -0.0f, 1e20f, -0.0f, kInf}));
}

TEST(Activations, RefuseWhatTheyCannotDo) {
  Workspace workspace(Threads{1});
  Matrix x(2, 6);
  MatrixOf<Bf16> y(2, 6);
  EXPECT_THROW(perform(workspace, Gelu{.y = y.view(), .x = x.view()}), Unsupported);
}

}  // namespace
}  // namespace ng::cpu
