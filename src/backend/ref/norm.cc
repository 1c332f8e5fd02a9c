#include "backend/ref/norm.h"

#include <algorithm>
#include <cmath>

#include "backend/norm_parts.h"

namespace ng::ref {
namespace {

/// Mean and 1/standard deviation of one row; RMSNorm takes the mean for 0.
struct Statistics {
  float mean = 0;
  float rstd = 0;
};

Statistics statistics(NormKind kind, const Reader& x, int64_t t, float eps) {
  const auto n = static_cast<double>(x.cols());
  double mean = 0;
  if (kind == NormKind::layer) {
    for (int64_t c = 0; c < x.cols(); ++c) mean += x(t, c);
    mean /= n;
  }
  double squares = 0;
  for (int64_t c = 0; c < x.cols(); ++c) {
    const double d = x(t, c) - mean;
    squares += d * d;
  }
  return {static_cast<float>(mean), static_cast<float>(1 / std::sqrt(squares / n + eps))};
}

/// What the backward pass reads.
struct Inputs {
  NormKind kind;
  Reader dy, x, gain;
  float eps;

  [[nodiscard]] Statistics statistics_of(int64_t t) const { return statistics(kind, x, t, eps); }
  [[nodiscard]] float h(const Statistics& s, int64_t t, int64_t c) const {
    return (x(t, c) - s.mean) * s.rstd;
  }
  [[nodiscard]] float g(int64_t t, int64_t c) const { return dy(t, c) * gain(0, c); }
};

// The sum over tokens in FP64, rounded once, then one addition.
void add_parameter_gradients(const Inputs& a, const View& dgain, const View& dbias,
                             Scratch& scratch) {
  const auto cols = static_cast<size_t>(a.x.cols());
  scratch.resize(std::max(scratch.size(), 2 * cols));
  double* gain_sum = scratch.data();
  double* bias_sum = gain_sum + cols;
  std::fill_n(scratch.begin(), 2 * cols, 0.0);
  for (int64_t t = 0; t < a.x.rows(); ++t) {
    const Statistics s = a.statistics_of(t);
    for (int64_t c = 0; c < a.x.cols(); ++c) {
      const double dy = a.dy(t, c);
      gain_sum[c] += dy * a.h(s, t, c);
      bias_sum[c] += dy;
    }
  }
  const Writer gain(dgain), bias(dbias);
  for (int64_t c = 0; c < a.x.cols(); ++c) {
    gain.add(0, c, static_cast<float>(gain_sum[c]));
    if (dbias.rows > 0) bias.add(0, c, static_cast<float>(bias_sum[c]));
  }
}

void input_gradient(const Inputs& a, const View& dx, const ConstView& dresidual) {
  const auto n = static_cast<double>(a.x.cols());
  const Reader residual(dresidual, dx);
  const Writer out(dx);
  for (int64_t t = 0; t < a.x.rows(); ++t) {
    const Statistics s = a.statistics_of(t);
    double g_sum = 0;
    double gh_sum = 0;
    for (int64_t c = 0; c < a.x.cols(); ++c) {
      if (a.kind == NormKind::layer) g_sum += a.g(t, c);
      gh_sum += static_cast<double>(a.g(t, c)) * a.h(s, t, c);
    }
    const auto g_mean = static_cast<float>(g_sum / n);
    const auto gh_mean = static_cast<float>(gh_sum / n);
    for (int64_t c = 0; c < a.x.cols(); ++c) {
      float value = s.rstd * (a.g(t, c) - g_mean - a.h(s, t, c) * gh_mean);
      if (dresidual.rows > 0) value = residual(t, c) + value;
      out.put(t, c, value);
    }
  }
}

void perform_part(const Norm& op) {
  const Reader x(op.x, op.y), gain(op.gain, op.y), bias(op.bias, op.y);
  const Writer y(op.y);
  for (int64_t t = 0; t < op.x.rows; ++t) {
    const Statistics s = statistics(op.kind, x, t, op.eps);
    for (int64_t c = 0; c < op.x.cols; ++c) {
      const float h = (x(t, c) - s.mean) * s.rstd;
      float value = h * gain(0, c);
      if (op.bias.rows > 0) value += bias(0, c);
      y.put(t, c, value);
    }
  }
}

}  // namespace

void perform(const Norm& op) {
  NG_CHECK(same_shape(op.y, op.x), op.y.rows, op.y.cols, op.x.rows, op.x.cols);
  NG_CHECK(op.kind == NormKind::layer || op.bias.rows == 0);
  for (int64_t i = 0; i < norm_parts(op); ++i) perform_part(part_of(op, i));
  put_amax(op.y, op.amax);
}

void perform(const NormBackward& op, Scratch& scratch) {
  NG_CHECK(same_shape(op.dx, op.x) && same_shape(op.dy, op.x), op.dx.rows, op.dx.cols, op.dy.rows,
           op.dy.cols, op.x.rows, op.x.cols);
  NG_CHECK(op.dresidual.rows == 0 || same_shape(op.dresidual, op.x), op.dresidual.rows,
           op.dresidual.cols);
  NG_CHECK(op.kind == NormKind::layer || op.dbias.rows == 0);
  for (int64_t i = 0; i < norm_parts(op); ++i) {
    const NormBackward part = part_of(op, i);
    const Inputs inputs{op.kind, Reader(part.dy, part.dx), Reader(part.x, part.dx),
                        Reader(op.gain, part.dx), op.eps};
    add_parameter_gradients(inputs, op.dgain, op.dbias, scratch);
    input_gradient(inputs, part.dx, part.dresidual);
  }
  put_amax(op.dx, op.amax);
}

}  // namespace ng::ref
