// Random Hadamard transform of blocks along the reduction dimension: z = c_g · H · (σ∘x).
// [formats.md §7]
#pragma once

#include <array>
#include <cstdint>

#include "base/error.h"
#include "base/host_device.h"
#include "math/philox.h"

namespace ng {

/// Sign j is negative iff bit j % 32 of word j / 32 is set.
using SignBits = std::array<uint32_t, 4>;

/// Whether blocks of g values can be transformed: 16, 32, 64 or 128.
constexpr bool is_hadamard_size(int g) { return g == 16 || g == 32 || g == 64 || g == 128; }

/// c_g = 2^-floor(log2(g)/2), exact: 1/4, 1/4, 1/8, 1/8.
NG_HD constexpr float hadamard_factor(int g) { return g <= 32 ? 0.25f : 0.125f; }

/// What a GEMM of two transformed operands is multiplied by: 1/(g·c_g²) is 1, 1/2, 1, 1/2; 1 for
/// g = 0.
NG_HD constexpr float hadamard_alpha(int g) { return g == 32 || g == 128 ? 0.5f : 1.0f; }

/// Undoes c_g·H: 1/(g·c_g), exact: 1/4, 1/8, 1/8, 1/16.
NG_HD constexpr float hadamard_back_factor(int g) {
  return 1.0f / (static_cast<float>(g) * hadamard_factor(g));
}

/// In place on g values: butterflies with strides 1, 2, 4, ... in FP32.
NG_HD constexpr void hadamard_butterflies(float* x, int g) {
  for (int stride = 1; stride < g; stride *= 2) {
    for (int j = 0; j < g; ++j) {
      if ((j & stride) != 0) continue;
      const float u = x[j];
      const float v = x[j + stride];
      x[j] = u + v;
      x[j + stride] = u - v;
    }
  }
}

NG_HD constexpr bool has_negative_sign(const uint32_t* signs, int j) {
  return ((signs[j / 32] >> (j % 32)) & 1) != 0;
}

/// In place on g values: signs, butterflies with strides 1, 2, 4, ... in FP32, then · c_g.
NG_HD constexpr void hadamard_transform(float* x, int g, const uint32_t* signs) {
  for (int j = 0; j < g; ++j)
    if (has_negative_sign(signs, j)) x[j] = -x[j];
  hadamard_butterflies(x, g);
  for (int j = 0; j < g; ++j) x[j] *= hadamard_factor(g);
}

/// What undoes it, in place: butterflies, then · 1/(g·c_g), then signs.
NG_HD constexpr void hadamard_back(float* x, int g, const uint32_t* signs) {
  hadamard_butterflies(x, g);
  for (int j = 0; j < g; ++j) {
    x[j] *= hadamard_back_factor(g);
    if (has_negative_sign(signs, j)) x[j] = -x[j];
  }
}

/// `hadamard_signs = "fixed"`: TransformerEngine's + + + - + - - - - - - + - + - -, repeated every
/// 16 values for larger g.
constexpr SignBits fixed_signs() {
  constexpr uint32_t word = 0xD7E8D7E8u;
  return {word, word, word, word};
}

/// `hadamard_signs = "random"`: one draw per layer, GEMM and step. key: purpose hadamard_signs,
/// the weight's tensor id, micro 0; gemm: dgrad 0, wgrad 1, fprop 2. [recipes.md §0]
inline SignBits signs_of(const RandomKey& key, uint32_t gemm) {
  NG_CHECK(key.purpose == Purpose::hadamard_signs && key.micro == 0 && gemm < 3, key.micro, gemm);
  return draw(key, gemm);
}

}  // namespace ng
