// GELU and SwiGLU in FP32, by the formulas of the cpu backend.
#include <cmath>

#include "backend/cuda/kernels/largest.h"
#include "backend/cuda/kernels/perform.h"
#include "math/erf.h"
#include "math/exp.h"

namespace ng::cuda {
namespace {

constexpr float kTwoSqrtTwoOverPi = 0x1.988454p+0f;  // 2 · sqrt(2/π)
constexpr float kCubic = 0.044715f;
// Beyond ±100 the result is x or 0 whatever u is; the limit keeps x³ from overflowing.
constexpr float kFar = 100.0f;

struct Sigmoid {
  float s;     ///< 1 / (1 + e^-x)
  float rest;  ///< 1 - s, without cancellation
};

__device__ inline Sigmoid sigmoid_of(float x) {
  const float e = math::exp(-std::fabs(x));
  const float large = 1.0f / (1.0f + e);
  const float small = e * large;
  return x < 0 ? Sigmoid{small, large} : Sigmoid{large, small};
}

__device__ inline float near_zero(float x) {
  const float above = -kFar > x ? -kFar : x;
  return kFar < above ? kFar : above;
}

__device__ inline float gelu_of(float x, GeluKind kind) {
  if (kind == GeluKind::erf) return x * math::normal_cdf(x).cdf;
  const float c = near_zero(x);
  const float inner = std::fma(kCubic * c, c, 1.0f);
  return x * sigmoid_of(kTwoSqrtTwoOverPi * c * inner).s;
}

__device__ inline float gelu_slope(float x, GeluKind kind) {
  if (kind == GeluKind::erf) {
    const math::NormalCdf normal = math::normal_cdf(x);
    return std::fma(x, normal.density, normal.cdf);
  }
  const float c = near_zero(x);
  const float square = c * c;
  const float scaled = kTwoSqrtTwoOverPi * c;
  const Sigmoid sigmoid = sigmoid_of(scaled * std::fma(kCubic, square, 1.0f));
  const float inner_slope = std::fma(3 * kCubic, square, 1.0f);
  return std::fma(scaled * inner_slope, sigmoid.s * sigmoid.rest, sigmoid.s);
}

struct GeluEach {
  Target y;
  Source x;
  GeluKind kind;
  __device__ Written<1> operator()(int64_t row, int64_t col) const {
    const float value = gelu_of(x(row, col), kind);
    y.put(row, col, value);
    return {{value}};
  }
};

struct GeluBackwardEach {
  Target dx;
  Source dy, x;
  GeluKind kind;
  __device__ Written<1> operator()(int64_t row, int64_t col) const {
    const float value = dy(row, col) * gelu_slope(x(row, col), kind);
    dx.put(row, col, value);
    return {{value}};
  }
};

struct SwigluEach {
  Target y;
  Source gate, up;
  __device__ Written<1> operator()(int64_t row, int64_t col) const {
    const float g = gate(row, col);
    const float value = g * sigmoid_of(g).s * up(row, col);
    y.put(row, col, value);
    return {{value}};
  }
};

struct SwigluBackwardEach {
  Target dgate, dup;
  Source dy, gate, up;
  __device__ Written<2> operator()(int64_t row, int64_t col) const {
    const float d = dy(row, col), g = gate(row, col), u = up(row, col);
    const Sigmoid sigmoid = sigmoid_of(g);
    const float of_up = d * (g * sigmoid.s);
    const float of_gate = d * u * (sigmoid.s * std::fma(g, sigmoid.rest, 1.0f));
    dup.put(row, col, of_up);
    dgate.put(row, col, of_gate);
    return {{of_gate, of_up}};
  }
};

}  // namespace

void perform(Stream stream, const Gelu& op) {
  NG_CHECK(same_shape(op.y, op.x), op.y.rows, op.y.cols, op.x.rows, op.x.cols);
  const Target y = target_of("gelu", op.y);
  for_each_noted<1>(stream, op.y.rows, op.y.cols,
                    GeluEach{y, source_of("gelu", op.x, op.y), op.kind},
                    {{amax_place(stream, y, op.amax)}});
}

void perform(Stream stream, const GeluBackward& op) {
  NG_CHECK(same_shape(op.dx, op.x) && same_shape(op.dy, op.x), op.dx.rows, op.dx.cols, op.dy.rows,
           op.dy.cols, op.x.rows, op.x.cols);
  constexpr std::string_view kName = GeluBackward::kName;
  const Target dx = target_of(kName, op.dx);
  const GeluBackwardEach each{dx, source_of(kName, op.dy, op.dx), source_of(kName, op.x, op.dx),
                              op.kind};
  for_each_noted<1>(stream, op.dx.rows, op.dx.cols, each, {{amax_place(stream, dx, op.amax)}});
}

void perform(Stream stream, const Swiglu& op) {
  NG_CHECK(same_shape(op.y, op.gate) && same_shape(op.y, op.up), op.y.rows, op.y.cols, op.gate.rows,
           op.gate.cols, op.up.rows, op.up.cols);
  const Target y = target_of("swiglu", op.y);
  const SwigluEach each{y, source_of("swiglu", op.gate, op.y), source_of("swiglu", op.up, op.y)};
  for_each_noted<1>(stream, op.y.rows, op.y.cols, each, {{amax_place(stream, y, op.amax)}});
}

void perform(Stream stream, const SwigluBackward& op) {
  NG_CHECK(same_shape(op.dgate, op.gate) && same_shape(op.dup, op.up) &&
               same_shape(op.gate, op.up) && same_shape(op.dy, op.gate),
           op.dgate.rows, op.dgate.cols, op.dup.rows, op.dup.cols, op.dy.rows, op.dy.cols);
  constexpr std::string_view kName = SwigluBackward::kName;
  const Target dgate = target_of(kName, op.dgate), dup = target_of(kName, op.dup);
  const SwigluBackwardEach each{dgate, dup, source_of(kName, op.dy, op.dgate),
                                source_of(kName, op.gate, op.dgate),
                                source_of(kName, op.up, op.dgate)};
  for_each_noted<2>(
      stream, op.dy.rows, op.dy.cols, each,
      {{amax_place(stream, dgate, op.dgate_amax), amax_place(stream, dup, op.dup_amax)}});
}

}  // namespace ng::cuda
