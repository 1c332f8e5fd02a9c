#include "backend/ref/activation.h"

#include <cmath>

#include "backend/ref/number.h"
#include "math/exp.h"

namespace ng::ref {
namespace {

constexpr double kSqrtTwoOverPi = 0.79788456080286535588;
constexpr double kCubic = 0.044715;  // [Hendrycks & Gimpel 2016, section 2]
constexpr double kSqrtHalf = 0.70710678118654752440;
constexpr double kOneOverSqrtTwoPi = 0.39894228040143267794;

double sigmoid(double x) { return 1 / (1 + math::exp(-x)); }

// 0.5·(1 + tanh(u)) = sigmoid(2u), without cancellation.
double twice_u(double x) { return 2 * kSqrtTwoOverPi * (x + kCubic * (x * x * x)); }

double gelu_of(double x, Gelu kind) {
  if (kind == Gelu::erf) return 0.5 * x * std::erfc(-x * kSqrtHalf);
  return x * sigmoid(twice_u(x));
}

double gelu_slope(double x, Gelu kind) {
  if (kind == Gelu::erf) {
    const double density = kOneOverSqrtTwoPi * math::exp(-0.5 * (x * x));
    return 0.5 * std::erfc(-x * kSqrtHalf) + x * density;
  }
  const double z = twice_u(x);
  const double inner_slope = 2 * kSqrtTwoOverPi * (1 + 3 * kCubic * (x * x));
  return sigmoid(z) + x * (sigmoid(z) * sigmoid(-z)) * inner_slope;
}

// One rounding to FP32, then what `compute` asks for.
float store(double y, Compute compute) { return out(static_cast<float>(y), compute); }

}  // namespace

void gelu(View y, ConstView x, Gelu kind, Compute compute) {
  NG_CHECK(same_shape(y, x), y.rows, y.cols, x.rows, x.cols);
  for (int64_t t = 0; t < y.rows; ++t)
    for (int64_t c = 0; c < y.cols; ++c)
      y.row(t)[c] = store(gelu_of(in(x.row(t)[c], compute), kind), compute);
}

void gelu_backward(View dx, ConstView dy, ConstView x, Gelu kind, Compute compute) {
  NG_CHECK(same_shape(dx, x) && same_shape(dy, x), dx.rows, dx.cols, dy.rows, dy.cols, x.rows,
           x.cols);
  for (int64_t t = 0; t < dx.rows; ++t)
    for (int64_t c = 0; c < dx.cols; ++c)
      dx.row(t)[c] =
          store(in(dy.row(t)[c], compute) * gelu_slope(in(x.row(t)[c], compute), kind), compute);
}

void swiglu(View y, ConstView gate, ConstView up, Compute compute) {
  NG_CHECK(same_shape(y, gate) && same_shape(y, up), y.rows, y.cols, gate.rows, gate.cols, up.rows,
           up.cols);
  for (int64_t t = 0; t < y.rows; ++t)
    for (int64_t c = 0; c < y.cols; ++c) {
      const double g = in(gate.row(t)[c], compute);
      y.row(t)[c] = store(g * sigmoid(g) * in(up.row(t)[c], compute), compute);
    }
}

void swiglu_backward(View dgate, View dup, ConstView dy, ConstView gate, ConstView up,
                     Compute compute) {
  NG_CHECK(same_shape(dgate, gate) && same_shape(dup, up) && same_shape(gate, up) &&
               same_shape(dy, gate),
           dgate.rows, dgate.cols, dup.rows, dup.cols, dy.rows, dy.cols, gate.rows, gate.cols,
           up.rows, up.cols);
  for (int64_t t = 0; t < dy.rows; ++t)
    for (int64_t c = 0; c < dy.cols; ++c) {
      const double d = in(dy.row(t)[c], compute);
      const double g = in(gate.row(t)[c], compute);
      const double u = in(up.row(t)[c], compute);
      const double s = sigmoid(g);
      dup.row(t)[c] = store(d * (g * s), compute);
      dgate.row(t)[c] = store(d * u * (s * (1 + g * (1 - s))), compute);
    }
}

}  // namespace ng::ref
