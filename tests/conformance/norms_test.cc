// RMSNorm and LayerNorm: every bound is derived from the sizes, the values and u = 2^-24, the
// largest relative error of one FP32 operation.
#include <limits>

#include "conformance.h"

namespace ng::conformance {
namespace {

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

RowError row_error(const Matrix& x, int64_t t, double eps, bool centred, Storage storage) {
  const auto n = static_cast<double>(x.cols());
  RowError e{.gamma = depth_of_sum(x.cols()) * kUnit};
  double sum = 0, magnitude = 0;
  for (int64_t c = 0; c < x.cols(); ++c) {
    sum += read(x.at(t, c), storage);
    magnitude += std::abs(read(x.at(t, c), storage));
  }
  if (centred) {
    e.mean = sum / n;
    e.mean_error = e.gamma * magnitude / n;
  }
  double squares = 0;
  for (int64_t c = 0; c < x.cols(); ++c) squares += std::pow(read(x.at(t, c), storage) - e.mean, 2);
  const double variance = squares / n + eps;
  // The squares move with the mean only to second order, but each difference is rounded.
  const double variance_error = (e.gamma + 4 * kUnit) * variance + e.mean_error * e.mean_error;
  e.rstd = 1 / std::sqrt(variance);
  e.rstd_error = e.rstd * (variance_error / variance / 2 + 3 * kUnit);
  return e;
}

struct NormCase {
  Shape shape;
  Storage storage;
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
    return fmt::format("{} {} bias {} residual {}", centred ? "layer_norm" : "rms_norm",
                       shape.text(), bias, residual);
  }
};

Results run_norm(const Place& with, const NormCase& n) {
  const NormKind kind = n.centred ? NormKind::layer : NormKind::rms;
  const Tensor x = with.activation(n.x());
  Tensor dy = with.activation(n.dy());
  const Tensor gain = with.parameter(n.gain()), bias = with.parameter(n.bias_row());
  Tensor y = with.activation(n.shape.matrix());
  with.execute(Norm{.kind = kind,
                    .y = y,
                    .x = x,
                    .gain = gain,
                    .bias = n.centred && n.bias ? bias : ConstView{},
                    .eps = n.eps});
  // dx may be the residual's memory, or dy's.
  Tensor residual = with.activation(n.dresidual());
  Tensor& dx = n.residual ? residual : dy;
  Tensor dgain = with.fp32(Matrix(1, n.shape.cols).fill_uniform(25));
  Tensor dbias = with.fp32(Matrix(1, n.shape.cols).fill_uniform(26));
  with.execute(NormBackward{.kind = kind,
                            .dx = dx,
                            .dgain = dgain,
                            .dbias = n.centred && n.bias ? dbias.view() : View{},
                            .dresidual = n.residual ? residual.view() : View{},
                            .dy = dy,
                            .x = x,
                            .gain = gain,
                            .eps = n.eps});
  return {
      {"y", y.values()}, {"dx", dx.values()}, {"dgain", dgain.values()}, {"dbias", dbias.values()}};
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
      rows_.push_back(row_error(x_, t, n.eps, n.centred, n.storage));
  }

  double operator()(const std::string& name, int64_t t, int64_t c) const {
    if (name == "y") return y_bound(t, c);
    if (name == "dx") return dx_bound(t, c);
    return parameter_bound(name == "dgain", c);
  }

 private:
  [[nodiscard]] double x(int64_t t, int64_t c) const { return read(x_.at(t, c), n_.storage); }
  [[nodiscard]] double dy(int64_t t, int64_t c) const { return read(dy_.at(t, c), n_.storage); }
  [[nodiscard]] double gain(int64_t c) const { return read(gain_.at(0, c), n_.storage); }

  [[nodiscard]] double y_bound(int64_t t, int64_t c) const {
    const RowError& e = row(t);
    const double product = e.h(x(t, c)) * gain(c);
    const double bias = n_.bias ? read(bias_.at(0, c), n_.storage) : 0;
    const double error = std::abs(gain(c)) * e.h_error(x(t, c)) +
                         2 * kUnit * (2 * std::abs(product) + std::abs(bias));
    return with_bf16(error, static_cast<float>(product + bias), n_.storage);
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
    const double residual = n_.residual ? read(dresidual_.at(t, c), n_.storage) : 0;
    const double error = e.rstd * sum_error + e.rstd_error * std::abs(sum) +
                         3 * kUnit * (std::abs(e.rstd * sum) + std::abs(residual));
    return with_bf16(error, static_cast<float>(residual + e.rstd * sum), n_.storage);
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
    for (const Storage storage : kStorages)
      for (const bool residual : {false, true})
        for (const int kind : {0, 1, 2}) {
          const NormCase n{s, storage, kind > 0, kind == 2, residual};
          const NormBound bound(n);
          conform(
              n.text(), storage, [&](const Place& with) { return run_norm(with, n); },
              [&](const std::string& name, int64_t t, int64_t c) { return bound(name, t, c); });
        }
}

TEST(Conformance, NormsLetNanThrough) {
  Matrix x = Matrix(3, 33).fill_uniform(20);
  x.at(1, 17) = std::numeric_limits<float>::quiet_NaN();
  for (const Target& target : targets_without_units())
    for (const Storage storage : kStorages)
      for (const NormKind kind : {NormKind::rms, NormKind::layer}) {
        SCOPED_TRACE(fmt::format("{} {}", target.label(), name_of(storage)));
        const Place with{backend_of(target), storage};
        Tensor y = with.activation(Matrix(3, 33));
        with.execute(Norm{.kind = kind,
                          .y = y,
                          .x = with.activation(x),
                          .gain = with.parameter(Matrix(1, 33).fill(1)),
                          .eps = 1e-5f});
        const Matrix got = y.values();
        for (int64_t c = 0; c < 33; ++c) {
          EXPECT_TRUE(std::isnan(got.at(1, c))) << c;
          EXPECT_TRUE(std::isfinite(got.at(0, c)) && std::isfinite(got.at(2, c))) << c;
        }
      }
}

/// Norms of the heads in columns of a wider tensor, in place of their gradients: all at once, or
/// each by an operation of its own.
Results norms_of_heads(const Place& with, int64_t heads, bool at_once) {
  constexpr int64_t kRows = 5, kSize = 18;
  const Tensor x = with.activation(Matrix(kRows, heads * kSize, 7).fill_uniform(20, 3));
  const Tensor gain = with.parameter(Matrix(1, kSize).fill_uniform(22, 2));
  Tensor y = with.activation(Matrix(kRows, heads * kSize, 3));
  Tensor d = with.activation(Matrix(kRows, heads * kSize, 7).fill_uniform(21));
  Tensor dgain = with.fp32(Matrix(1, kSize).fill_uniform(25));
  const int64_t count = at_once ? 1 : heads, cols = heads * kSize / count;
  for (int64_t i = 0; i < count; ++i) {
    const auto part = [&](auto whole) { return whole.columns(i * cols, cols); };
    with.execute(Norm{.kind = NormKind::rms,
                      .y = part(View(y)),
                      .x = part(ConstView(x)),
                      .gain = gain,
                      .eps = 1e-6f});
    with.execute(NormBackward{.kind = NormKind::rms,
                              .dx = part(View(d)),
                              .dgain = dgain,
                              .dy = part(ConstView(d)),
                              .x = part(ConstView(x)),
                              .gain = gain,
                              .eps = 1e-6f});
  }
  return {{"y", y.values()}, {"dx", d.values()}, {"dgain", dgain.values()}};
}

// dgain is rounded head by head, or once: |dy| <= 1 and |h| <= sqrt(18) of 5 · heads values.
TEST(Conformance, NormsOfHeadsAtOnce) {
  for (const Target& target : targets_without_units())
    for (const Storage storage : kStorages)
      for (const int64_t heads : {2, 3}) {
        SCOPED_TRACE(fmt::format("{} {} {} heads", target.label(), name_of(storage), heads));
        const Place with{backend_of(target), storage};
        const double rounded = static_cast<double>(5 * heads) * 4.25 * kUnit * 2;
        compare(norms_of_heads(with, heads, true), norms_of_heads(with, heads, false),
                [&](const std::string& name, int64_t, int64_t) {
                  return name == "dgain" ? rounded : 0.0;
                });
      }
}

}  // namespace
}  // namespace ng::conformance
