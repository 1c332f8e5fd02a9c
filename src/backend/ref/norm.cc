#include "backend/ref/norm.h"

#include <algorithm>
#include <cmath>

#include "backend/ref/number.h"

namespace ng::ref {
namespace {

enum class Kind { rms, layer };

/// Mean and 1/standard deviation of one row; RMSNorm takes the mean for 0.
struct Statistics {
  float mean = 0;
  float rstd = 0;
};

Statistics statistics(Kind kind, ConstView x, int64_t t, float eps, Compute compute) {
  const auto n = static_cast<double>(x.cols);
  double mean = 0;
  if (kind == Kind::layer) {
    for (int64_t c = 0; c < x.cols; ++c) mean += in(x.row(t)[c], compute);
    mean /= n;
  }
  double squares = 0;
  for (int64_t c = 0; c < x.cols; ++c) {
    const double d = in(x.row(t)[c], compute) - mean;
    squares += d * d;
  }
  return {static_cast<float>(mean), static_cast<float>(1 / std::sqrt(squares / n + eps))};
}

void forward(Kind kind, View y, ConstView x, const float* gain, const float* bias, float eps,
             Compute compute) {
  NG_CHECK(same_shape(y, x), y.rows, y.cols, x.rows, x.cols);
  for (int64_t t = 0; t < x.rows; ++t) {
    const Statistics s = statistics(kind, x, t, eps, compute);
    for (int64_t c = 0; c < x.cols; ++c) {
      const float h = (in(x.row(t)[c], compute) - s.mean) * s.rstd;
      float value = h * in(gain[c], compute);
      if (bias != nullptr) value += in(bias[c], compute);
      y.row(t)[c] = out(value, compute);
    }
  }
}

/// What the backward pass reads, rounded as `compute` says.
struct Inputs {
  Kind kind;
  ConstView dy, x;
  const float* gain;
  float eps;
  Compute compute;

  [[nodiscard]] Statistics statistics_of(int64_t t) const {
    return statistics(kind, x, t, eps, compute);
  }
  [[nodiscard]] float h(const Statistics& s, int64_t t, int64_t c) const {
    return (in(x.row(t)[c], compute) - s.mean) * s.rstd;
  }
  [[nodiscard]] float g(int64_t t, int64_t c) const {
    return in(dy.row(t)[c], compute) * in(gain[c], compute);
  }
};

// FP32 parameter gradients: the sum over tokens in FP64, rounded once, then one addition.
void add_parameter_gradients(const Inputs& a, float* dgain, float* dbias,
                             std::vector<double>& scratch) {
  const auto cols = static_cast<size_t>(a.x.cols);
  scratch.resize(std::max(scratch.size(), 2 * cols));
  double* gain_sum = scratch.data();
  double* bias_sum = gain_sum + cols;
  std::fill_n(scratch.begin(), 2 * cols, 0.0);
  for (int64_t t = 0; t < a.x.rows; ++t) {
    const Statistics s = a.statistics_of(t);
    for (int64_t c = 0; c < a.x.cols; ++c) {
      const double dy = in(a.dy.row(t)[c], a.compute);
      gain_sum[c] += dy * a.h(s, t, c);
      bias_sum[c] += dy;
    }
  }
  for (int64_t c = 0; c < a.x.cols; ++c) {
    dgain[c] += static_cast<float>(gain_sum[c]);
    if (dbias != nullptr) dbias[c] += static_cast<float>(bias_sum[c]);
  }
}

void input_gradient(const Inputs& a, View dx, ConstView dresidual) {
  const auto n = static_cast<double>(a.x.cols);
  for (int64_t t = 0; t < a.x.rows; ++t) {
    const Statistics s = a.statistics_of(t);
    double g_sum = 0;
    double gh_sum = 0;
    for (int64_t c = 0; c < a.x.cols; ++c) {
      if (a.kind == Kind::layer) g_sum += a.g(t, c);
      gh_sum += static_cast<double>(a.g(t, c)) * a.h(s, t, c);
    }
    const auto g_mean = static_cast<float>(g_sum / n);
    const auto gh_mean = static_cast<float>(gh_sum / n);
    for (int64_t c = 0; c < a.x.cols; ++c) {
      float value = s.rstd * (a.g(t, c) - g_mean - a.h(s, t, c) * gh_mean);
      if (dresidual.rows > 0) value = in(dresidual.row(t)[c], a.compute) + value;
      dx.row(t)[c] = out(value, a.compute);
    }
  }
}

void backward(Kind kind, const NormBackward& args, Compute compute, std::vector<double>& scratch) {
  const ConstView dx = args.dx, dy = args.dy, x = args.x, dresidual = args.dresidual;
  NG_CHECK(same_shape(dx, x) && same_shape(dy, x), dx.rows, dx.cols, dy.rows, dy.cols, x.rows,
           x.cols);
  NG_CHECK(dresidual.rows == 0 || same_shape(dresidual, x), dresidual.rows, dresidual.cols);
  const Inputs inputs{kind, dy, x, args.gain, args.eps, compute};
  add_parameter_gradients(inputs, args.dgain, args.dbias, scratch);
  input_gradient(inputs, args.dx, dresidual);
}

}  // namespace

void rms_norm(View y, ConstView x, const float* gain, float eps, Compute compute) {
  forward(Kind::rms, y, x, gain, nullptr, eps, compute);
}

void rms_norm_backward(const NormBackward& args, Compute compute, std::vector<double>& scratch) {
  NG_CHECK(args.dbias == nullptr);
  backward(Kind::rms, args, compute, scratch);
}

void layer_norm(View y, ConstView x, const float* gain, const float* bias, float eps,
                Compute compute) {
  forward(Kind::layer, y, x, gain, bias, eps, compute);
}

void layer_norm_backward(const NormBackward& args, Compute compute, std::vector<double>& scratch) {
  backward(Kind::layer, args, compute, scratch);
}

}  // namespace ng::ref
