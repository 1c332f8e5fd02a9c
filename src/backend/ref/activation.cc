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

double gelu_of(double x, GeluKind kind) {
  if (kind == GeluKind::erf) return 0.5 * x * std::erfc(-x * kSqrtHalf);
  return x * sigmoid(twice_u(x));
}

double gelu_slope(double x, GeluKind kind) {
  if (kind == GeluKind::erf) {
    const double density = kOneOverSqrtTwoPi * math::exp(-0.5 * (x * x));
    return 0.5 * std::erfc(-x * kSqrtHalf) + x * density;
  }
  const double z = twice_u(x);
  const double inner_slope = 2 * kSqrtTwoOverPi * (1 + 3 * kCubic * (x * x));
  return sigmoid(z) + x * (sigmoid(z) * sigmoid(-z)) * inner_slope;
}

}  // namespace

void perform(const Gelu& op) {
  NG_CHECK(same_shape(op.y, op.x), op.y.rows, op.y.cols, op.x.rows, op.x.cols);
  const Reader x(op.x, op.y);
  const Writer y(op.y);
  for (int64_t t = 0; t < op.y.rows; ++t)
    for (int64_t c = 0; c < op.y.cols; ++c)
      y.put(t, c, static_cast<float>(gelu_of(x(t, c), op.kind)));
  put_amax(op.y, op.amax);
}

void perform(const GeluBackward& op) {
  NG_CHECK(same_shape(op.dx, op.x) && same_shape(op.dy, op.x), op.dx.rows, op.dx.cols, op.dy.rows,
           op.dy.cols, op.x.rows, op.x.cols);
  const Reader dy(op.dy, op.dx), x(op.x, op.dx);
  const Writer dx(op.dx);
  for (int64_t t = 0; t < op.dx.rows; ++t)
    for (int64_t c = 0; c < op.dx.cols; ++c)
      dx.put(t, c, static_cast<float>(dy(t, c) * gelu_slope(x(t, c), op.kind)));
  put_amax(op.dx, op.amax);
}

void perform(const Swiglu& op) {
  NG_CHECK(same_shape(op.y, op.gate) && same_shape(op.y, op.up), op.y.rows, op.y.cols, op.gate.rows,
           op.gate.cols, op.up.rows, op.up.cols);
  const Reader gate(op.gate, op.y), up(op.up, op.y);
  const Writer y(op.y);
  for (int64_t t = 0; t < op.y.rows; ++t)
    for (int64_t c = 0; c < op.y.cols; ++c) {
      const double g = gate(t, c);
      y.put(t, c, static_cast<float>(g * sigmoid(g) * up(t, c)));
    }
  put_amax(op.y, op.amax);
}

void perform(const SwigluBackward& op) {
  NG_CHECK(same_shape(op.dgate, op.gate) && same_shape(op.dup, op.up) &&
               same_shape(op.gate, op.up) && same_shape(op.dy, op.gate),
           op.dgate.rows, op.dgate.cols, op.dup.rows, op.dup.cols, op.dy.rows, op.dy.cols,
           op.gate.rows, op.gate.cols, op.up.rows, op.up.cols);
  const Reader dy(op.dy, op.dgate), gate(op.gate, op.dgate), up(op.up, op.dgate);
  const Writer dgate(op.dgate), dup(op.dup);
  for (int64_t t = 0; t < op.dy.rows; ++t)
    for (int64_t c = 0; c < op.dy.cols; ++c) {
      const double d = dy(t, c);
      const double g = gate(t, c);
      const double u = up(t, c);
      const double s = sigmoid(g);
      dup.put(t, c, static_cast<float>(d * (g * s)));
      dgate.put(t, c, static_cast<float>(d * u * (s * (1 + g * (1 - s)))));
    }
  put_amax(op.dgate, op.dgate_amax);
  put_amax(op.dup, op.dup_amax);
}

}  // namespace ng::ref
