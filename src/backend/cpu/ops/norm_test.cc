// Norms against double precision. With K = cols/16 + 20 roundings in a tree sum and after it, and
// A = 1 + rstd · mean|x| (how much the mean's error moves a normalized value n), n is off by at
// most K·eps·(|n| + A); the bounds below propagate that.
#include "backend/cpu/ops/norm.h"

#include "backend/cpu/kernel_testing.h"

namespace ng::cpu {
namespace {

constexpr float kNormEps = 1e-5f;

struct NormCase {
  int64_t rows, cols, gap;
  float mean;
};

class NormOf : public ::testing::TestWithParam<NormCase> {
 protected:
  NormCase c = GetParam();
  Matrix x = Matrix(c.rows, c.cols, c.gap).randomize(1, 2, c.mean);
  Matrix dy = Matrix(c.rows, c.cols, c.gap).randomize(2);
  Matrix dresidual = Matrix(c.rows, c.cols, c.gap).randomize(3);
  Matrix gain = Matrix(1, c.cols).randomize(4, 0.3f, 1);
  Matrix bias = Matrix(1, c.cols).randomize(5);

  // Mean, rstd and mean |x| of row r in double.
  struct Row {
    double mean = 0, rstd = 0, size = 0;
  };
  [[nodiscard]] Row row(int64_t r, bool centred) const {
    Row row;
    for (int64_t i = 0; i < c.cols; ++i) {
      if (centred) row.mean += x.at(r, i) / static_cast<double>(c.cols);
      if (centred) row.size += std::fabs(x.at(r, i)) / static_cast<double>(c.cols);
    }
    double squares = 0;
    for (int64_t i = 0; i < c.cols; ++i) squares += std::pow(x.at(r, i) - row.mean, 2);
    row.rstd = 1 / std::sqrt(squares / static_cast<double>(c.cols) + kNormEps);
    return row;
  }
  [[nodiscard]] double roundings() const { return static_cast<double>(c.cols) / 16 + 20; }

  static NormKind kind_of(bool centred) { return centred ? NormKind::layer : NormKind::rms; }

  // Activations stored as Stored; a layer norm has a bias.
  template <class Stored>
  std::vector<float> forward(bool centred, const Matrix& in, const Matrix& g, const Matrix& b) {
    const MatrixOf<Stored> from(in);
    return on_every_machine([&](Workspace& w) {
      MatrixOf<Stored> y(c.rows, c.cols, c.gap);
      perform(w, Norm{.kind = kind_of(centred),
                      .y = y.view(),
                      .x = from.view(),
                      .gain = g.view(),
                      .bias = centred ? ConstView(b.view()) : ConstView{},
                      .eps = kNormEps});
      EXPECT_TRUE(y.gaps_untouched());
      return y.values();
    });
  }
  // dx, dgain, dbias; the gradients of gain and bias are added to ones.
  template <class Stored>
  std::vector<float> backward(bool centred, const Matrix& d, const Matrix& in, const Matrix& g,
                              const Matrix* residual) {
    const MatrixOf<Stored> dy_in(d), from(in);
    return on_every_machine([&](Workspace& w) {
      MatrixOf<Stored> dx(c.rows, c.cols, c.gap);
      Matrix dgain(1, c.cols), dbias(1, c.cols);
      for (float& v : dgain) v = 1;
      for (float& v : dbias) v = 1;
      // In place, as the residual stream does it.
      if (residual != nullptr) dx = MatrixOf<Stored>(*residual);
      perform(w, NormBackward{.kind = kind_of(centred),
                              .dx = dx.view(),
                              .dgain = dgain.view(),
                              .dbias = centred ? View(dbias.view()) : View{},
                              .dresidual = residual != nullptr ? ConstView(dx.view()) : ConstView{},
                              .dy = dy_in.view(),
                              .x = from.view(),
                              .gain = g.view(),
                              .eps = kNormEps});
      EXPECT_TRUE(dx.gaps_untouched());
      return joined({dx.values(), dgain.values(), dbias.values()});
    });
  }
};

TEST_P(NormOf, ForwardIsWithinItsBound) {
  for (const bool centred : {false, true}) {
    const std::vector<float> y = forward<float>(centred, x, gain, bias);
    for (int64_t r = 0; r < c.rows; ++r) {
      const Row s = row(r, centred);
      for (int64_t i = 0; i < c.cols; ++i) {
        const double n = (x.at(r, i) - s.mean) * s.rstd, g = gain.at(0, i);
        const double shift = centred ? bias.at(0, i) : 0;
        const double bound =
            kEps * (roundings() * (std::fabs(n) + 1 + s.rstd * s.size) * std::fabs(g) +
                    std::fabs(shift) * 2);
        EXPECT_LE(std::fabs(y[static_cast<size_t>(r * c.cols + i)] - (n * g + shift)), bound);
      }
    }
  }
}

TEST_P(NormOf, BackwardIsWithinItsBound) {
  for (const bool centred : {false, true}) {
    const std::vector<float> got = backward<float>(centred, dy, x, gain, &dresidual);
    std::vector<double> dgain(static_cast<size_t>(c.cols), 1), dbias = dgain, bound = dgain,
                                                               bias_bound = dgain;
    const double k = roundings(), count = static_cast<double>(c.cols);
    for (int64_t r = 0; r < c.rows; ++r) {
      const Row s = row(r, centred);
      const double a = 1 + s.rstd * s.size;
      double level = 0, tilt = 0, sizes = 0, moments = 0;
      for (int64_t i = 0; i < c.cols; ++i) {
        const double n = (x.at(r, i) - s.mean) * s.rstd, d = 1.0 * dy.at(r, i) * gain.at(0, i);
        if (centred) level += d / count;
        tilt += d * n / count;
        sizes += std::fabs(d) / count;
        moments += std::fabs(d) * (std::fabs(n) + a) / count;
        const size_t j = static_cast<size_t>(i);
        dgain[j] += dy.at(r, i) * n;
        dbias[j] += dy.at(r, i);
        bound[j] += std::fabs(dy.at(r, i)) * (std::fabs(n) + a);
        bias_bound[j] += std::fabs(dy.at(r, i));
      }
      for (int64_t i = 0; i < c.cols; ++i) {
        const double n = (x.at(r, i) - s.mean) * s.rstd, d = 1.0 * dy.at(r, i) * gain.at(0, i);
        const double want = dresidual.at(r, i) + s.rstd * (d - level - n * tilt);
        const double size = std::fabs(d) + sizes + (std::fabs(n) + a) * moments;
        EXPECT_LE(std::fabs(got[static_cast<size_t>(r * c.cols + i)] - want),
                  kEps * (3 * k * s.rstd * size + std::fabs(want)))
            << r << " " << i;
      }
    }
    const double rows = static_cast<double>(c.rows);
    const size_t at = static_cast<size_t>(c.rows * c.cols), cols = static_cast<size_t>(c.cols);
    for (size_t i = 0; i < cols; ++i) {
      EXPECT_LE(std::fabs(got[at + i] - dgain[i]), kEps * (rows + k) * bound[i]);
      if (!centred) continue;
      EXPECT_LE(std::fabs(got[at + cols + i] - dbias[i]), kEps * (rows + 2) * bias_bound[i]);
    }
  }
}

TEST_P(NormOf, WithoutResidualItIsNotAdded) {
  Matrix zeros(c.rows, c.cols, c.gap);
  for (const bool centred : {false, true})
    EXPECT_EQ(backward<float>(centred, dy, x, gain, nullptr),
              backward<float>(centred, dy, x, gain, &zeros));
}

TEST_P(NormOf, Bf16RoundsInputsAndOutputOnce) {
  const Matrix xr = x.rounded(), gr = gain.rounded(), br = bias.rounded(), dr = dy.rounded(),
               rr = dresidual.rounded();
  const size_t elements = static_cast<size_t>(c.rows * c.cols);
  for (const bool centred : {false, true}) {
    EXPECT_TRUE(same_bits(forward<Bf16>(centred, x, gain, bias),
                          bf16(forward<float>(centred, xr, gr, br))));
    const std::vector<float> got = backward<Bf16>(centred, dy, x, gain, &dresidual);
    std::vector<float> want = backward<float>(centred, dr, xr, gr, &rr);
    for (size_t i = 0; i < elements; ++i) want[i] = bf16(want[i]);  // dgain, dbias stay FP32
    EXPECT_TRUE(same_bits(got, want));
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, NormOf,
                         ::testing::Values(NormCase{1, 1, 0, 0}, NormCase{3, 15, 0, 1},
                                           NormCase{7, 16, 3, 0}, NormCase{70, 129, 0, -3},
                                           NormCase{600, 33, 1, 0}, NormCase{3, 5001, 0, 20}));

void norm(Workspace& workspace, NormKind kind, const Matrix& x, const Matrix& gain, Matrix& y) {
  perform(workspace, Norm{.kind = kind,
                          .y = y.view(),
                          .x = x.view(),
                          .gain = gain.view(),
                          .bias = {},
                          .eps = kNormEps});
}

TEST(Norms, KeepNan) {
  Matrix x = Matrix(2, 33).randomize(1), gain = Matrix(1, 33).randomize(2), y(2, 33);
  x.at(1, 32) = kNan;
  Workspace workspace(Threads{1});
  norm(workspace, NormKind::rms, x, gain, y);
  for (int64_t c = 0; c < 33; ++c) {
    EXPECT_TRUE(std::isfinite(y.at(0, c)));
    EXPECT_TRUE(std::isnan(y.at(1, c)));
  }
  norm(workspace, NormKind::layer, x, gain, y);
  for (int64_t c = 0; c < 33; ++c) EXPECT_TRUE(std::isnan(y.at(1, c)));
}

// Dividing by their infinite deviation would hide them as zeros.
TEST(Norms, RowsTooLargeForSquaresAreNotANumber) {
  Matrix x = Matrix(1, 33).randomize(1), gain = Matrix(1, 33).randomize(2), y(1, 33);
  x.at(0, 7) = 2e19f;
  x.at(0, 8) = -2e19f;
  Workspace workspace(Threads{1});
  norm(workspace, NormKind::rms, x, gain, y);
  for (int64_t c = 0; c < 33; ++c) EXPECT_TRUE(std::isnan(y.at(0, c)));
  norm(workspace, NormKind::layer, x, gain, y);
  for (int64_t c = 0; c < 33; ++c) EXPECT_TRUE(std::isnan(y.at(0, c)));
}

}  // namespace
}  // namespace ng::cpu
