// The lanes' elementary functions are the scalar ones, bit for bit, on every instruction set.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "base/isa.h"
#include "base/sanitized_testing.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/simd/elementary_test.cc"
#include <hwy/foreach_target.h>  // once per instruction set
#include "backend/cpu/simd/elementary-inl.h"
#include "backend/cpu/simd/exp64-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ng::cpu::HWY_NAMESPACE {

void All(const float* x, float* exp, float* log, float* cdf, float* density) {
  const F16 v = Load16(x);
  Store16(Exp(v), exp);
  Store16(Log(v), log);
  const Cdf16 normal = NormalCdf(v);
  Store16(normal.cdf, cdf);
  Store16(normal.density, density);
}

void Exp64(const double* x, double* to) { Store16(Exp(Load16(x)), to); }

}  // namespace ng::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ng::cpu {
namespace {
HWY_EXPORT(All);
HWY_EXPORT(Exp64);

bool same(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

TEST(Elementary, IsTheScalarExponentialOfDoubles) {
  for (const Isa isa : supported_isas()) {
    force_isa(isa);
    for (int i = -80000; i < 80000; i += 16) {
      alignas(64) double x[16], exp[16];
      for (int l = 0; l < 16; ++l) x[l] = (i + l) * 0.0123456789;  // beyond both bounds
      if (i == 0) x[1] = std::numeric_limits<double>::infinity(), x[2] = -x[1], x[3] = 0x1p-1074;
      HWY_DYNAMIC_DISPATCH(Exp64)(x, exp);
      for (int l = 0; l < 16; ++l)
        ASSERT_EQ(std::bit_cast<uint64_t>(exp[l]), std::bit_cast<uint64_t>(math::exp(x[l])))
            << name_of(isa) << " " << x[l];
    }
  }
}

TEST(Elementary, IsTheScalarFunctionOnEveryIsa) {
  // Of all 2^32 patterns: every binade, NaN and infinity too.
  constexpr uint32_t kStep = kSanitized ? 131071 : 16411;
  for (const Isa isa : supported_isas()) {
    force_isa(isa);
    for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 16 * kStep) {
      alignas(64) float x[16], exp[16], log[16], cdf[16], density[16];
      for (uint64_t l = 0; l < 16; ++l)
        x[l] = std::bit_cast<float>(static_cast<uint32_t>(bits + l * kStep));
      HWY_DYNAMIC_DISPATCH(All)(x, exp, log, cdf, density);
      for (int l = 0; l < 16; ++l) {
        const math::NormalCdf want = math::normal_cdf(x[l]);
        ASSERT_TRUE(same(exp[l], math::exp(x[l]))) << name_of(isa) << " " << x[l];
        if (std::isnormal(x[l]) && x[l] > 0) {
          ASSERT_TRUE(same(log[l], math::log(x[l]))) << name_of(isa) << " " << x[l];
        }
        ASSERT_TRUE(same(cdf[l], want.cdf)) << name_of(isa) << " " << x[l];
        ASSERT_TRUE(same(density[l], want.density)) << name_of(isa) << " " << x[l];
      }
    }
  }
  force_isa("auto");
}

}  // namespace
}  // namespace ng::cpu
#endif
