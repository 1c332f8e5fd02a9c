#include "backend/ref/activation.h"

#include <cmath>

#include "backend/ref/number.h"

namespace ng::ref {
namespace {

constexpr float kSqrtTwoOverPi = 0.79788456080286535588f;
constexpr float kCubic = 0.044715f;  // [Hendrycks & Gimpel 2016, section 2]
constexpr float kSqrtHalf = 0.70710678118654752440f;
constexpr float kOneOverSqrtTwoPi = 0.39894228040143267794f;

// Correctly rounded in all but a few cases: the double result rounded once.
float exp_of(float x) { return static_cast<float>(std::exp(static_cast<double>(x))); }
float tanh_of(float x) { return static_cast<float>(std::tanh(static_cast<double>(x))); }
float erf_of(float x) { return static_cast<float>(std::erf(static_cast<double>(x))); }

float gelu_of(float x, Gelu kind) {
  if (kind == Gelu::erf) return 0.5f * x * (1 + erf_of(x * kSqrtHalf));
  return 0.5f * x * (1 + tanh_of(kSqrtTwoOverPi * (x + kCubic * (x * x * x))));
}

float gelu_slope(float x, Gelu kind) {
  if (kind == Gelu::erf) {
    const float density = kOneOverSqrtTwoPi * exp_of(-0.5f * (x * x));
    return 0.5f * (1 + erf_of(x * kSqrtHalf)) + x * density;
  }
  const float t = tanh_of(kSqrtTwoOverPi * (x + kCubic * (x * x * x)));
  const float inner_slope = kSqrtTwoOverPi * (1 + 3 * kCubic * (x * x));
  return 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * inner_slope;
}

float sigmoid(float x) { return 1 / (1 + exp_of(-x)); }

}  // namespace

void gelu(View y, ConstView x, Gelu kind, Compute compute) {
  NG_CHECK(same_shape(y, x), y.rows, y.cols, x.rows, x.cols);
  for (int64_t t = 0; t < y.rows; ++t)
    for (int64_t c = 0; c < y.cols; ++c)
      y.row(t)[c] = out(gelu_of(in(x.row(t)[c], compute), kind), compute);
}

void gelu_backward(View dx, ConstView dy, ConstView x, Gelu kind, Compute compute) {
  NG_CHECK(same_shape(dx, x) && same_shape(dy, x), dx.rows, dx.cols, dy.rows, dy.cols, x.rows,
           x.cols);
  for (int64_t t = 0; t < dx.rows; ++t)
    for (int64_t c = 0; c < dx.cols; ++c)
      dx.row(t)[c] =
          out(in(dy.row(t)[c], compute) * gelu_slope(in(x.row(t)[c], compute), kind), compute);
}

void swiglu(View y, ConstView gate, ConstView up, Compute compute) {
  NG_CHECK(same_shape(y, gate) && same_shape(y, up), y.rows, y.cols, gate.rows, gate.cols, up.rows,
           up.cols);
  for (int64_t t = 0; t < y.rows; ++t)
    for (int64_t c = 0; c < y.cols; ++c) {
      const float g = in(gate.row(t)[c], compute);
      y.row(t)[c] = out(g * sigmoid(g) * in(up.row(t)[c], compute), compute);
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
      const float d = in(dy.row(t)[c], compute);
      const float g = in(gate.row(t)[c], compute);
      const float u = in(up.row(t)[c], compute);
      const float s = sigmoid(g);
      dup.row(t)[c] = out(d * (g * s), compute);
      dgate.row(t)[c] = out(d * u * (s * (1 + g * (1 - s))), compute);
    }
}

}  // namespace ng::ref
