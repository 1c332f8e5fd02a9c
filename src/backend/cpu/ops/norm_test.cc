// Norms against double precision. With K = cols/16 + 20 roundings in a tree sum and after it, and
// A = 1 + rstd · mean|x| (how much the mean's error moves a normalized value n), n is off by at
// most K·eps·(|n| + A); the bounds below propagate that.
#include "backend/cpu/ops/norm.h"

#include "backend/cpu/kernel_testing.h"

namespace ng::cpu {
namespace {

constexpr float kNormEps = 1e-5f;

struct Case {
  int64_t rows, cols, gap;
  float mean;
};

class Norm : public ::testing::TestWithParam<Case> {
 protected:
  Case c = GetParam();
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

  std::vector<float> forward(bool centred, const Matrix& in, const Matrix& g, const float* b,
                             Compute compute) {
    return on_every_machine([&](Workspace& w) {
      Matrix y(c.rows, c.cols, c.gap);
      if (centred)
        layer_norm(w, y.view(), in.view(), g.view().data, b, kNormEps, compute);
      else
        rms_norm(w, y.view(), in.view(), g.view().data, kNormEps, compute);
      EXPECT_TRUE(y.gaps_untouched());
      return y.values();
    });
  }
  // dx, dgain, dbias; the gradients of gain and bias are added to ones.
  std::vector<float> backward(bool centred, const Matrix& d, const Matrix& in, const Matrix& g,
                              const Matrix* residual, Compute compute) {
    return on_every_machine([&](Workspace& w) {
      Matrix dx(c.rows, c.cols, c.gap), dgain(1, c.cols), dbias(1, c.cols);
      for (float& v : dgain) v = 1;
      for (float& v : dbias) v = 1;
      if (residual != nullptr) dx = *residual;  // in place, as the residual stream does it
      NormBackward args{.dx = dx.view(),
                        .dgain = dgain.view().data,
                        .dbias = centred ? dbias.view().data : nullptr,
                        .dresidual = residual != nullptr ? ConstView(dx.view()) : ConstView{},
                        .dy = d.view(),
                        .x = in.view(),
                        .gain = g.view().data,
                        .eps = kNormEps};
      if (centred)
        layer_norm_backward(w, args, compute);
      else
        rms_norm_backward(w, args, compute);
      EXPECT_TRUE(dx.gaps_untouched());
      return joined({dx.values(), dgain.values(), dbias.values()});
    });
  }
};

TEST_P(Norm, ForwardIsWithinItsBound) {
  for (const bool centred : {false, true}) {
    const float* b = centred ? bias.view().data : nullptr;
    const std::vector<float> y = forward(centred, x, gain, b, Compute::fp32);
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

TEST_P(Norm, BackwardIsWithinItsBound) {
  for (const bool centred : {false, true}) {
    const std::vector<float> got = backward(centred, dy, x, gain, &dresidual, Compute::fp32);
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

TEST_P(Norm, WithoutResidualItIsNotAdded) {
  Matrix zeros(c.rows, c.cols, c.gap);
  for (const bool centred : {false, true})
    EXPECT_EQ(backward(centred, dy, x, gain, nullptr, Compute::fp32),
              backward(centred, dy, x, gain, &zeros, Compute::fp32));
}

TEST_P(Norm, Bf16RoundsInputsAndOutputOnce) {
  const Matrix xr = x.rounded(), gr = gain.rounded(), br = bias.rounded(), dr = dy.rounded(),
               rr = dresidual.rounded();
  const size_t elements = static_cast<size_t>(c.rows * c.cols);
  for (const bool centred : {false, true}) {
    const float* b = centred ? bias.view().data : nullptr;
    const float* b_rounded = centred ? br.view().data : nullptr;
    EXPECT_TRUE(same_bits(forward(centred, x, gain, b, Compute::bf16),
                          bf16(forward(centred, xr, gr, b_rounded, Compute::fp32))));
    const std::vector<float> got = backward(centred, dy, x, gain, &dresidual, Compute::bf16);
    std::vector<float> want = backward(centred, dr, xr, gr, &rr, Compute::fp32);
    for (size_t i = 0; i < elements; ++i) want[i] = bf16(want[i]);  // dgain, dbias stay FP32
    EXPECT_TRUE(same_bits(got, want));
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, Norm,
                         ::testing::Values(Case{1, 1, 0, 0}, Case{3, 15, 0, 1}, Case{7, 16, 3, 0},
                                           Case{70, 129, 0, -3}, Case{600, 33, 1, 0},
                                           Case{3, 5001, 0, 20}));

TEST(Norms, KeepNan) {
  Matrix x = Matrix(2, 33).randomize(1), gain = Matrix(1, 33).randomize(2), y(2, 33);
  x.at(1, 32) = kNan;
  Workspace workspace(Threads{1});
  rms_norm(workspace, y.view(), x.view(), gain.view().data, kNormEps, Compute::fp32);
  for (int64_t c = 0; c < 33; ++c) {
    EXPECT_TRUE(std::isfinite(y.at(0, c)));
    EXPECT_TRUE(std::isnan(y.at(1, c)));
  }
  layer_norm(workspace, y.view(), x.view(), gain.view().data, nullptr, kNormEps, Compute::fp32);
  for (int64_t c = 0; c < 33; ++c) EXPECT_TRUE(std::isnan(y.at(1, c)));
}

// Dividing by their infinite deviation would hide them as zeros.
TEST(Norms, RowsTooLargeForSquaresAreNotANumber) {
  Matrix x = Matrix(1, 33).randomize(1), gain = Matrix(1, 33).randomize(2), y(1, 33);
  x.at(0, 7) = 2e19f;
  x.at(0, 8) = -2e19f;
  Workspace workspace(Threads{1});
  rms_norm(workspace, y.view(), x.view(), gain.view().data, kNormEps, Compute::fp32);
  for (int64_t c = 0; c < 33; ++c) EXPECT_TRUE(std::isnan(y.at(0, c)));
  layer_norm(workspace, y.view(), x.view(), gain.view().data, nullptr, kNormEps, Compute::fp32);
  for (int64_t c = 0; c < 33; ++c) EXPECT_TRUE(std::isnan(y.at(0, c)));
}

}  // namespace
}  // namespace ng::cpu
