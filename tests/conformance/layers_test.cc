// Norms, activations, rotary positions and the loss: every bound is derived from the sizes, the
// values and u = 2^-24, the largest relative error of one FP32 operation.
#include <limits>

#include "conformance.h"

namespace ng::conformance {
namespace {

constexpr double kTiny = 0x1p-126;  // results below the normal range may be rounded differently

// ---------------------------------------------------------------- norms

/// Longest chain of additions in an FP32 sum of n terms: 16 lanes, chunks of 4096, folds, with room
/// for the roundings of the terms. [recipes.md §0]
double depth_of_sum(int64_t n) { return static_cast<double>(std::min<int64_t>(n, 4096)) / 16 + 12; }

/// Statistics of one row and how far they can be off.
struct RowError {
  double mean = 0, mean_error = 0;
  double rstd = 0, rstd_error = 0;
  double gamma = 0;  // relative to the sum of magnitudes

  [[nodiscard]] double h(double x) const { return (x - mean) * rstd; }
  [[nodiscard]] double h_error(double x) const {
    return std::abs(x - mean) * rstd_error + rstd * (mean_error + 2 * kUnit * std::abs(x - mean));
  }
};

RowError row_error(const Matrix& x, int64_t t, double eps, bool centred, Compute compute) {
  const auto n = static_cast<double>(x.cols());
  RowError e{.gamma = depth_of_sum(x.cols()) * kUnit};
  double sum = 0, magnitude = 0;
  for (int64_t c = 0; c < x.cols(); ++c) {
    sum += read(x.at(t, c), compute);
    magnitude += std::abs(read(x.at(t, c), compute));
  }
  if (centred) {
    e.mean = sum / n;
    e.mean_error = e.gamma * magnitude / n;
  }
  double squares = 0;
  for (int64_t c = 0; c < x.cols(); ++c) squares += std::pow(read(x.at(t, c), compute) - e.mean, 2);
  const double variance = squares / n + eps;
  // The squares move with the mean only to second order, but each difference is rounded.
  const double variance_error = (e.gamma + 4 * kUnit) * variance + e.mean_error * e.mean_error;
  e.rstd = 1 / std::sqrt(variance);
  e.rstd_error = e.rstd * (variance_error / variance / 2 + 3 * kUnit);
  return e;
}

struct NormCase {
  Shape shape;
  Compute compute;
  bool centred;   // LayerNorm
  bool bias;      // LayerNorm only
  bool residual;  // the backward pass adds a gradient
  float eps = 1e-5f;

  [[nodiscard]] Matrix x() const { return shape.matrix().fill_uniform(20, 3); }
  [[nodiscard]] Matrix dy() const { return shape.matrix().fill_uniform(21); }
  [[nodiscard]] Matrix gain() const { return Matrix(1, shape.cols).fill_uniform(22, 2); }
  [[nodiscard]] Matrix bias_row() const { return Matrix(1, shape.cols).fill_uniform(23); }
  [[nodiscard]] Matrix dresidual() const {
    return residual ? shape.matrix().fill_uniform(24) : Matrix();
  }
  [[nodiscard]] std::string text() const {
    return fmt::format("{} {} {} bias {} residual {}", centred ? "layer_norm" : "rms_norm",
                       shape.text(), name_of(compute), bias, residual);
  }
};

Results run_norm(Backend& b, const NormCase& n) {
  const Matrix x = n.x(), dy = n.dy(), gain = n.gain(), bias = n.bias_row();
  Matrix y = n.shape.matrix();
  Matrix dx = n.residual ? n.dresidual() : n.shape.matrix();  // dx may be the residual's memory
  Matrix dgain = Matrix(1, n.shape.cols).fill_uniform(25);
  Matrix dbias = Matrix(1, n.shape.cols).fill_uniform(26);
  const NormBackward args{.dx = dx.view(),
                          .dgain = dgain.data(),
                          .dbias = n.centred && n.bias ? dbias.data() : nullptr,
                          .dresidual = n.residual ? dx.view() : View{},
                          .dy = dy.view(),
                          .x = x.view(),
                          .gain = gain.data(),
                          .eps = n.eps};
  if (n.centred) {
    b.layer_norm(y.view(), x.view(), gain.data(), n.bias ? bias.data() : nullptr, n.eps, n.compute);
    b.layer_norm_backward(args, n.compute);
  } else {
    b.rms_norm(y.view(), x.view(), gain.data(), n.eps, n.compute);
    b.rms_norm_backward(args, n.compute);
  }
  return {{"y", y}, {"dx", dx}, {"dgain", dgain}, {"dbias", dbias}};
}

/// Everything the bounds of one case need, computed once.
class NormBound {
 public:
  explicit NormBound(const NormCase& n)
      : n_(n),
        x_(n.x()),
        dy_(n.dy()),
        gain_(n.gain()),
        bias_(n.bias_row()),
        dresidual_(n.dresidual()) {
    for (int64_t t = 0; t < x_.rows(); ++t)
      rows_.push_back(row_error(x_, t, n.eps, n.centred, n.compute));
  }

  double operator()(const std::string& name, int64_t t, int64_t c) const {
    if (name == "y") return y_bound(t, c);
    if (name == "dx") return dx_bound(t, c);
    return parameter_bound(name == "dgain", c);
  }

 private:
  [[nodiscard]] double x(int64_t t, int64_t c) const { return read(x_.at(t, c), n_.compute); }
  [[nodiscard]] double dy(int64_t t, int64_t c) const { return read(dy_.at(t, c), n_.compute); }
  [[nodiscard]] double gain(int64_t c) const { return read(gain_.at(0, c), n_.compute); }

  [[nodiscard]] double y_bound(int64_t t, int64_t c) const {
    const RowError& e = row(t);
    const double product = e.h(x(t, c)) * gain(c);
    const double bias = n_.bias ? read(bias_.at(0, c), n_.compute) : 0;
    const double error = std::abs(gain(c)) * e.h_error(x(t, c)) +
                         2 * kUnit * (2 * std::abs(product) + std::abs(bias));
    return with_bf16(error, static_cast<float>(product + bias), n_.compute);
  }

  // dx = dresidual + rstd · (g - mean(g) - h · mean(g · h))
  [[nodiscard]] double dx_bound(int64_t t, int64_t c) const {
    const RowError& e = row(t);
    const auto n = static_cast<double>(x_.cols());
    double g_sum = 0, g_size = 0, gh_sum = 0, gh_size = 0, gh_error = 0;
    for (int64_t i = 0; i < x_.cols(); ++i) {
      const double g = dy(t, i) * gain(i);
      g_sum += g;
      g_size += std::abs(g);
      gh_sum += g * e.h(x(t, i));
      gh_size += std::abs(g * e.h(x(t, i)));
      gh_error += std::abs(g) * e.h_error(x(t, i));
    }
    const double g_mean = n_.centred ? g_sum / n : 0;
    const double g_mean_error = n_.centred ? (e.gamma + 2 * kUnit) * g_size / n : 0;
    const double gh_mean = gh_sum / n;
    const double gh_mean_error = ((e.gamma + 4 * kUnit) * gh_size + gh_error) / n;
    const double g = dy(t, c) * gain(c), h = e.h(x(t, c));
    const double size = std::abs(g) + std::abs(g_mean) + std::abs(h * gh_mean);
    const double sum = g - g_mean - h * gh_mean;
    const double sum_error = 4 * kUnit * size + g_mean_error + std::abs(h) * gh_mean_error +
                             e.h_error(x(t, c)) * std::abs(gh_mean);
    const double residual = n_.residual ? read(dresidual_.at(t, c), n_.compute) : 0;
    const double error = e.rstd * sum_error + e.rstd_error * std::abs(sum) +
                         3 * kUnit * (std::abs(e.rstd * sum) + std::abs(residual));
    return with_bf16(error, static_cast<float>(residual + e.rstd * sum), n_.compute);
  }

  [[nodiscard]] double parameter_bound(bool is_gain, int64_t c) const {
    double size = 1, error = 0;  // 1: the value it is added to
    for (int64_t t = 0; t < x_.rows(); ++t) {
      const double h = is_gain ? row(t).h(x(t, c)) : 1;
      size += std::abs(dy(t, c) * h);
      error += is_gain ? std::abs(dy(t, c)) * row(t).h_error(x(t, c)) : 0;
    }
    return error + static_cast<double>(x_.rows() + 3) * kUnit * size;
  }

  [[nodiscard]] const RowError& row(int64_t t) const { return rows_[static_cast<size_t>(t)]; }

  NormCase n_;
  Matrix x_, dy_, gain_, bias_, dresidual_;
  std::vector<RowError> rows_;
};

TEST(Conformance, Norms) {
  for (const Shape& s : {Shape{1, 1, 0, 0}, Shape{3, 7, 0, 1}, Shape{5, 16, 3, 0},
                         Shape{39, 129, 1, 3}, Shape{2, 1025, 0, 2}})
    for (const Compute compute : kComputes)
      for (const bool residual : {false, true})
        for (const int kind : {0, 1, 2}) {
          const NormCase n{s, compute, kind > 0, kind == 2, residual};
          const NormBound bound(n);
          conform(
              n.text(), [&](Backend& b) { return run_norm(b, n); },
              [&](const std::string& name, int64_t t, int64_t c) { return bound(name, t, c); });
        }
}

TEST(Conformance, NormsLetNanThrough) {
  for (const Target& target : targets()) {
    SCOPED_TRACE(target.label());
    Backend& b = backend_of(target);
    Matrix x = Matrix(3, 33).fill_uniform(20);
    x.at(1, 17) = std::numeric_limits<float>::quiet_NaN();
    const Matrix gain = Matrix(1, 33).fill(1);
    Matrix y(3, 33);
    b.rms_norm(y.view(), x.view(), gain.data(), 1e-5f, Compute::fp32);
    for (int64_t c = 0; c < 33; ++c) {
      EXPECT_TRUE(std::isnan(y.at(1, c))) << c;
      EXPECT_TRUE(std::isfinite(y.at(0, c)) && std::isfinite(y.at(2, c))) << c;
    }
    b.layer_norm(y.view(), x.view(), gain.data(), nullptr, 1e-5f, Compute::bf16);
    EXPECT_TRUE(std::isnan(y.at(1, 32)) && std::isfinite(y.at(0, 32)));
  }
}

// ---------------------------------------------------------------- activations

// The exponent z whose e^z decides how small gelu(x) gets: x²/2, or 2u of the tanh form. z is
// rounded four times, which moves e^z by 4u·z relative.
double gelu_exponent(double x, Gelu kind) {
  return kind == Gelu::erf ? x * x / 2 : 1.6 * std::abs(x) * (1 + 0.045 * x * x);
}

TEST(Conformance, Gelu) {
  for (const Shape& s : kShapes)
    for (const Compute compute : kComputes)
      for (const Gelu kind : {Gelu::tanh, Gelu::erf}) {
        const Matrix x = s.matrix().fill_uniform(30, 6);
        const Matrix dy = s.matrix().fill_uniform(31, 2);
        Results want;
        const auto run = [&](Backend& b) {
          Matrix y = s.matrix(), dx = s.matrix();
          b.gelu(y.view(), x.view(), kind, compute);
          b.gelu_backward(dx.view(), dy.view(), x.view(), kind, compute);
          return Results{{"y", y}, {"dx", dx}};
        };
        want = run(reference());
        conform(fmt::format("gelu {} {} {}", kind == Gelu::tanh ? "tanh" : "erf", s.text(),
                            name_of(compute)),
                run, [&](const std::string& name, int64_t r, int64_t c) {
                  const double v = read(x.at(r, c), compute);
                  const double d = read(dy.at(r, c), compute);
                  const double value = std::abs(want.at(name).at(r, c));
                  // The derivative s + x·s' is a difference where x < 0, both terms below
                  // (1 + |x|·max s')·min(1, e^-z): its error is relative to that sum.
                  const double tail = v < 0 ? std::exp(-0.9 * gelu_exponent(v, kind)) : 1;
                  const double size =
                      name == "y" ? value : std::abs(d) * std::min(1.0, tail) * (1 + v * v);
                  const double error = size * (16 + 4 * gelu_exponent(v, kind)) * kUnit + kTiny;
                  return with_bf16(error, want.at(name).at(r, c), compute);
                });
      }
}

// sigmoid is off by 3u, and at most seven further roundings follow. The slope s·(1 + g·(1 - s)) is
// at most s·(1 + |g|), to which its error is relative.
TEST(Conformance, SwiGlu) {
  for (const Shape& s : kShapes)
    for (const Compute compute : kComputes) {
      const Matrix gate = s.matrix().fill_uniform(32, 20);
      const Matrix up = s.matrix().fill_uniform(33, 2);
      const Matrix dy = s.matrix().fill_uniform(34);
      const auto run = [&](Backend& b) {
        Matrix y = s.matrix(), dgate = s.matrix(), dup = s.matrix();
        b.swiglu(y.view(), gate.view(), up.view(), compute);
        b.swiglu_backward(dgate.view(), dup.view(), dy.view(), gate.view(), up.view(), compute);
        return Results{{"y", y}, {"dgate", dgate}, {"dup", dup}};
      };
      const Results want = run(reference());
      conform("swiglu " + s.text() + " " + name_of(compute), run,
              [&](const std::string& name, int64_t r, int64_t c) {
                const double g = read(gate.at(r, c), compute);
                const double u = read(up.at(r, c), compute);
                const double d = read(dy.at(r, c), compute);
                const double sigmoid = 1 / (1 + std::exp(-g));
                double size = 8 * std::abs(g * sigmoid);
                size *= std::abs(name == "y" ? u : d);
                if (name == "dgate") size = 10 * std::abs(d * u) * sigmoid * (1 + std::abs(g));
                return with_bf16(size * kUnit + kTiny, want.at(name).at(r, c), compute);
              });
    }
}

TEST(Conformance, ActivationsLetNanThrough) {
  conform("activations of non-finite values", [&](Backend& b) {
    const float inf = std::numeric_limits<float>::infinity();
    const float nan = std::numeric_limits<float>::quiet_NaN();
    Matrix x = Matrix(1, 21).fill(1);
    Matrix one = Matrix(1, 21).fill(1);
    x.at(0, 3) = nan;
    x.at(0, 17) = inf;
    x.at(0, 20) = nan;
    Results kinds;
    for (const Gelu kind : {Gelu::tanh, Gelu::erf}) {
      Matrix y(1, 21), dx(1, 21), classes(1, 42);
      b.gelu(y.view(), x.view(), kind, Compute::fp32);
      b.gelu_backward(dx.view(), one.view(), x.view(), kind, Compute::fp32);
      for (int64_t c = 0; c < 21; ++c) {
        classes.at(0, c) = static_cast<float>(std::isnan(y.at(0, c)) + 2 * std::isinf(y.at(0, c)));
        classes.at(0, 21 + c) = c == 17 ? 0 : static_cast<float>(std::isnan(dx.at(0, c)));
      }
      kinds.emplace(kind == Gelu::tanh ? "tanh" : "erf", classes);
    }
    return kinds;
  });
}

// ---------------------------------------------------------------- rotary positions

// Cosine and sine are rounded once from an angle that FP64 holds to 2^-50.
TEST(Conformance, RopeTable) {
  for (const int64_t head_dim : {2, 6, 64, 130})
    for (const float theta : {10000.0f, 500000.0f}) {
      const auto run = [&](Backend& b) {
        Matrix table(300, head_dim, 3, 1);
        b.rope_table(table.view(), theta);
        return Results{{"table", table}};
      };
      conform(fmt::format("rope_table {} {}", head_dim, theta), run,
              [](const std::string&, int64_t, int64_t) { return 2 * kUnit; });
    }
}

// a·cos - b·sin: three roundings, the first two relative to |a| and |b|.
TEST(Conformance, Rope) {
  for (const int head_dim : {2, 6, 64, 80})
    for (const int heads : {1, 3})
      for (const bool inverse : {false, true})
        for (const Compute compute : kComputes) {
          const Positions at{.sequences = 2, .length = 5, .first = 3};
          const Matrix x = Matrix(10, int64_t{heads} * head_dim, 3, 1).fill_uniform(40);
          const auto run = [&](Backend& b) {
            Matrix table(8, head_dim), y = x;
            reference().rope_table(table.view(), 10000.0f);
            b.rope(y.view(), table.view(), at, head_dim, inverse, compute);
            return Results{{"y", y}};
          };
          const Results want = run(reference());
          conform(
              fmt::format("rope {} x {} inverse {} {}", heads, head_dim, inverse, name_of(compute)),
              run, [&](const std::string& name, int64_t r, int64_t c) {
                const int64_t half = head_dim / 2;
                const int64_t other = c % head_dim < half ? c + half : c - half;
                const double size = std::abs(x.at(r, c)) + std::abs(x.at(r, other));
                return with_bf16(3 * kUnit * size, want.at(name).at(r, c), compute);
              });
        }
}

// ---------------------------------------------------------------- loss

// The sum of V exponentials is off by gamma relative, so lse by gamma absolute; p = e^(x - lse) by
// the error of x - lse.
TEST(Conformance, CrossEntropy) {
  for (const Shape& s : {Shape{1, 1, 0, 0}, Shape{3, 7, 0, 1}, Shape{5, 65, 3, 0},
                         Shape{9, 1009, 0, 0}, Shape{2, 50257, 0, 3}})
    for (const Compute compute : kComputes)
      for (const bool masked : {false, true}) {
        const Matrix logits = s.matrix().fill_uniform(50, 9);
        std::vector<int32_t> targets;
        Matrix mask = Matrix(1, s.rows).fill_uniform(51);
        for (int64_t t = 0; t < s.rows; ++t) {
          targets.push_back(static_cast<int32_t>(t * 31 % s.cols));
          if (t % 3 == 2) mask.at(0, t) = 0;
          if (masked && t % 3 == 2) targets.back() = -100;
        }
        const auto run = [&](Backend& b) {
          Matrix dlogits = logits, losses(1, s.rows), losses_only(1, s.rows);
          const float* weights = masked ? mask.data() : nullptr;
          b.cross_entropy(dlogits.view(), losses.data(), targets, weights, 0.37f, compute);
          b.cross_entropy_loss(logits.view(), losses_only.data(), targets, weights, compute);
          return Results{{"dlogits", dlogits}, {"losses", losses}, {"losses only", losses_only}};
        };
        const Results want = run(reference());
        const double gamma = (depth_of_sum(s.cols) + 8) * kUnit;
        std::vector<double> largest;  // of |lse| and all |x| of the row
        for (int64_t t = 0; t < s.rows; ++t) {
          double sum = 0, size = 0;
          for (int64_t c = 0; c < s.cols; ++c) {
            sum += std::exp(read(logits.at(t, c), compute));
            size = std::max(size, std::abs(read(logits.at(t, c), compute)));
          }
          largest.push_back(std::max(size, std::abs(std::log(sum))));
        }
        conform(fmt::format("cross_entropy {} {} masked {}", s.text(), name_of(compute), masked),
                run, [&](const std::string& name, int64_t r, int64_t c) {
                  const double row = largest[static_cast<size_t>(name == "dlogits" ? r : c)];
                  const double lse_error = gamma + 3 * kUnit * row;
                  if (name != "dlogits") return lse_error + 3 * kUnit * row;
                  // |d| = mask · scale · |p - onehot|, p <= 1 at the target.
                  const bool target = c == targets[static_cast<size_t>(r)];
                  const double d = std::abs(want.at(name).at(r, c));
                  const double p = target ? 0.37 : d;
                  const double error = p * (lse_error + 6 * kUnit * (1 + row)) + 4 * kUnit * d;
                  if (masked && mask.at(0, r) == 0) return 0.0;
                  return with_bf16(error, want.at(name).at(r, c), compute);
                });
      }
}

}  // namespace
}  // namespace ng::conformance
