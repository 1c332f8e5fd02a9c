// The normal distribution function Φ(x) = (1 + erf(x/√2))/2 of our own, and its density.
#pragma once

#include <array>
#include <cmath>

#include "math/exp.h"

namespace ng::math {

/// Constants of normal_cdf, shared with the vector form.
namespace cdf32 {
constexpr float kFarthest = 15.0f;           ///< Φ(-15) < 2^-150 rounds to 0
constexpr float kDensity0 = 0x1.988454p-2f;  ///< 1/sqrt(2π)
/// Φ(-a) · e^(a²/2) · (1 + a) as a polynomial in t = (a - 4)/(a + 4), 0 <= a <= 15: minimax,
/// relative error < 2^-29.
NG_HD constexpr std::array<float, 11> polynomial() {
  return {0x1.e361eap-2f,  -0x1.8c18f0p-4f,  0x1.cabd28p-7f,  0x1.d494f6p-6f,
          -0x1.07c2bcp-5f, 0x1.25eec4p-6f,   -0x1.47f04ep-8f, -0x1.3e2e2cp-12f,
          0x1.6aeb92p-11f, -0x1.0220fcp-14f, -0x1.2dea7cp-14f};
}
}  // namespace cdf32

struct NormalCdf {
  float cdf;      ///< Φ(x); relative error < 6 · 2^-24 on both sides, also in the lower tail
  float density;  ///< φ(x) = e^(-x²/2)/sqrt(2π); relative error < 4 · 2^-24
};

/// NaN in, NaN out. Both errors hold where the results are normal numbers.
NG_HD inline NormalCdf normal_cdf(float x) {
  using namespace cdf32;
  const float distance = std::fabs(x);
  const float a = kFarthest < distance ? kFarthest : distance;
  // e^(-a²/2), with what squaring rounds away put back.
  const float square = a * a;
  const float lost = std::fma(a, a, -square);
  float e = exp(-0.5f * square);
  e = std::fma(e, -0.5f * lost, e);
  const float near = a + 1.0f;
  const float far = a + 4.0f;
  const float reciprocal = 1.0f / (near * far);
  const float t = (a - 4.0f) * near * reciprocal;
  constexpr std::array kTerms = polynomial();
  float p = kTerms[10];
  for (int i = 9; i >= 0; --i) p = std::fma(p, t, kTerms[i]);
  const float tail = p * (far * reciprocal) * e;
  return {x < 0 ? tail : 1.0f - tail, e * kDensity0};
}

}  // namespace ng::math
