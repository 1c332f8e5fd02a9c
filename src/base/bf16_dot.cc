#include "base/bf16_dot.h"

#include <immintrin.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>

#include "base/flush_modes.h"

namespace ng {
namespace {

constexpr int kLanes = 16;
constexpr int kVectors = 1024;
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// Sums and two pairs of BF16 values each.
struct Cases {
  float acc[kLanes];
  float a[2][kLanes], b[2][kLanes];  ///< element 0 and 1 of the pairs
};

/// splitmix64
class Draws {
 public:
  uint32_t below(uint32_t n) {
    uint64_t z = state_ += 0x9E3779B97F4A7C15;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return static_cast<uint32_t>((z ^ (z >> 31)) >> 32) % n;
  }
  /// ± significand of `bits` bits · 2^e, e in [low, low + range)
  float number(int bits, int low, uint32_t range) {
    const uint32_t exponent = static_cast<uint32_t>(low + 127) + below(range);
    const uint32_t mantissa = below(1u << (bits - 1)) << (24 - bits);
    return std::bit_cast<float>(below(2) << 31 | exponent << 23 | mantissa);
  }

 private:
  uint64_t state_ = 0;
};

float special(Draws& draws) {
  constexpr float kValues[] = {0.0f, -0.0f, 1.0f, -1.0f, kInfinity, -kInfinity, kNan};
  return kValues[draws.below(std::size(kValues))];
}

// All but the last two kinds and their sums below are multiples of 2^-126, so that nothing
// subnormal arises.
float element(Draws& draws, uint32_t kind) {
  if (draws.below(24) == 0) return special(draws);
  if (kind == 0) return draws.number(4, -9, 18);   // E4M3
  if (kind == 1) return draws.number(3, -16, 32);  // E5M2
  if (kind == 2) return draws.number(8, 60, 5);    // near overflow
  if (kind == 3) return draws.number(8, -48, 20);
  if (kind == 4) return draws.number(8, -70, 12);  // of which products are around 2^-126
  if (kind == 5) return draws.below(2) == 0 ? draws.number(8, -127, 3) : draws.number(8, -4, 8);
  return draws.number(8, -3, 6);
}

// Of the magnitude of the product, and often so that little is left or that a tie is near.
float sum(Draws& draws, float product) {
  const uint32_t kind = draws.below(6);
  if (!std::isfinite(product) || product == 0 || kind == 0)
    return draws.below(4) == 0 ? special(draws) : draws.number(24, -102, 229);
  if (kind == 1) return -product;
  if (kind == 2) return product * draws.number(1, -4, 28);
  if (kind == 3) return -std::nextafter(product, draws.below(2) == 0 ? 0.0f : kInfinity);
  return product * draws.number(24, -2, 4);
}

Cases make(Draws& draws) {
  Cases cases;
  for (int i = 0; i < kLanes; ++i) {
    const uint32_t kind = draws.below(7);
    for (int e = 0; e < 2; ++e) cases.a[e][i] = element(draws, kind);
    for (int e = 0; e < 2; ++e) cases.b[e][i] = element(draws, kind);
    if (draws.below(8) == 0) cases.b[0][i] = -cases.b[1][i], cases.a[0][i] = cases.a[1][i];
    cases.acc[i] = sum(draws, cases.a[1][i] * cases.b[1][i]);
  }
  return cases;
}

[[gnu::target("avx512f,avx512bf16")]] bool agree(const Cases& cases) {
  uint32_t a[kLanes], b[kLanes];
  const auto word = [](float even, float odd) {
    return std::bit_cast<uint32_t>(even) >> 16 | std::bit_cast<uint32_t>(odd);
  };
  for (int i = 0; i < kLanes; ++i) a[i] = word(cases.a[0][i], cases.a[1][i]);
  for (int i = 0; i < kLanes; ++i) b[i] = word(cases.b[0][i], cases.b[1][i]);
  const __m512 acc = _mm512_loadu_ps(cases.acc);
  __m512 got = acc;
  __asm__("vdpbf16ps %2, %1, %0" : "+v"(got) : "v"(_mm512_loadu_ps(a)), "v"(_mm512_loadu_ps(b)));
  __m512 want = acc;
  {
    const FlushModes flush;
    for (const int e : {1, 0})  // in assembly, which stays between the changes of modes
      __asm__ volatile("vfmadd231ps %2, %1, %0"
                       : "+v"(want)
                       : "v"(_mm512_loadu_ps(cases.a[e])), "v"(_mm512_loadu_ps(cases.b[e])));
  }
  const __mmask16 same =
      _mm512_cmpeq_epi32_mask(_mm512_castps_si512(got), _mm512_castps_si512(want));
  const __mmask16 nan =
      _mm512_cmp_ps_mask(got, got, _CMP_UNORD_Q) & _mm512_cmp_ps_mask(want, want, _CMP_UNORD_Q);
  return (same | nan) == 0xFFFF;
}

}  // namespace

bool bf16_dots_are_fmas() {
  Draws draws;
  for (int i = 0; i < kVectors; ++i)
    if (!agree(make(draws))) return false;
  return true;
}

}  // namespace ng
