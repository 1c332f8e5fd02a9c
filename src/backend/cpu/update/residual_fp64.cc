// Residuals beside elements whose scale is no power of two (NVFP4, int8 rows).
#include <algorithm>
#include <cmath>

#include "backend/cpu/update/elements.h"
#include "math/round.h"

namespace ng::cpu {
namespace {

/// The spacing of an element's binade.
float ulp_of(const ResidualRules& rules, float element) {
  const float binade = float_of_bits(float_bits(element) & 0x7F800000u);
  return std::max(binade, rules.lowest_binade) * pow2(-rules.mantissa_bits);
}

/// What 1 of the residual stands for beside an element; exact.
double unit_of(const ResidualRules& rules, float element) {
  return static_cast<double>(ulp_of(rules, element)) * rules.scale * pow2(-rules.bits);
}

}  // namespace

void residual_sum_in_fp64(const ResidualRules& rules, const float* w, const float* elements,
                          const int8_t* c, const float* u, float lr, int64_t count, float* x) {
  for (int64_t i = 0; i < count; ++i) {
    const auto sum = static_cast<float>(w[i] + c[i] * unit_of(rules, elements[i]));
    x[i] = sum + lr * u[i];
  }
}

void residual_carry_in_fp64(const ResidualRules& rules, const float* x, const float* w,
                            const uint16_t* draws, int64_t count, float* elements, int8_t* c) {
  const double half = 1 << (rules.bits - 1);
  for (int64_t i = 0; i < count; ++i) {
    const double unit = unit_of(rules, elements[i]);
    const bool has_rest = unit > 0 && !std::isnan(x[i]);
    const double rest = has_rest ? (static_cast<double>(x[i]) - w[i]) / unit : 0;
    double q = std::clamp(std::floor(rest + draws[i] * 0x1p-16), -half, half);
    if (q == half && std::fabs(elements[i]) == rules.max) {
      q = half - 1;
    } else if (q == half) {
      const float ulp = ulp_of(rules, elements[i]);
      elements[i] += ulp;
      q = ulp_of(rules, elements[i]) > ulp ? -half / 2 : -half;
    }
    c[i] = static_cast<int8_t>(q);
  }
}

}  // namespace ng::cpu
