// Philox4x32-10 and the one rule for every random draw of the project. [recipes.md §0]
#pragma once

#include <array>
#include <cstdint>

#include "base/host_device.h"

namespace ng {

/// What a draw is for; part of the counter. [recipes.md §0]
enum class Purpose : uint8_t {
  weight_noise = 1,
  fprop_input = 2,
  fprop_weight = 3,
  dgrad_grad = 4,
  dgrad_weight = 5,
  wgrad_grad = 6,
  wgrad_input = 7,
  weight_update = 8,
  moment1 = 9,
  moment2 = 10,
  hadamard_signs = 11,
  gradient_wire = 12,
  init = 13,
  data = 14,
  fprop_output = 15,
  dgrad_output = 16,
};

/// Names one stream of draws. Two equal keys draw the same bits on every backend.
struct RandomKey {
  uint64_t seed = 0;
  uint32_t tensor = 0;  ///< TensorId: index of the canonical name in the model's table, < 2^20
  uint32_t step = 0;
  Purpose purpose = Purpose::init;
  uint32_t micro = 0;  ///< micro-batch in the step; 0 for purposes 1, 3, 5, 8-11, 13, 14; < 2^24
  /// first_group_of() where what draws are some rows of the tensor, counted from 0.
  uint64_t first_group = 0;

  friend bool operator==(const RandomKey&, const RandomKey&) = default;
};

using PhiloxBlock = std::array<uint32_t, 4>;

/// The group of the first eight elements of a row of a tensor of `cols` columns.
NG_HD constexpr uint64_t first_group_of(int64_t row, int64_t cols) {
  return static_cast<uint64_t>(row) * static_cast<uint64_t>((cols + 7) / 8);
}

/// Philox4x32-10 [Salmon et al., SC'11].
NG_HD constexpr PhiloxBlock philox(uint64_t key, PhiloxBlock counter) {
  uint32_t k0 = static_cast<uint32_t>(key);
  uint32_t k1 = static_cast<uint32_t>(key >> 32);
  auto [c0, c1, c2, c3] = counter;  // quicker than elements of an array where nothing is inlined
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53u} * c0;
    const uint64_t p1 = uint64_t{0xCD9E8D57u} * c2;
    c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<uint32_t>(p1);
    c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<uint32_t>(p0);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {c0, c1, c2, c3};
}

/// Counter of draw group `group` of a stream: {group, tensor, step, purpose and micro}; group bits
/// from 32 up go into bits 20..31 of the tensor word. `extra` is 0, or 0x80 for the second call
/// that 32-bit stochastic rounding needs.
NG_HD constexpr PhiloxBlock counter_of(const RandomKey& key, uint64_t group, uint32_t extra = 0) {
  group += key.first_group;
  return {static_cast<uint32_t>(group), key.tensor | (static_cast<uint32_t>(group >> 32) << 20),
          key.step, ((static_cast<uint32_t>(key.purpose) | extra) << 24) | key.micro};
}

/// The 128 bits of group `group`.
NG_HD constexpr PhiloxBlock draw(const RandomKey& key, uint64_t group, uint32_t extra = 0) {
  return philox(key.seed, counter_of(key, group, extra));
}

/// The random integer R of element (row, col) of a tensor of `cols` columns (untransposed and
/// whole): uniform in [0, 2^bits), bits 8, 16 or 32. [recipes.md §0: "One call = 128 bits"]
NG_HD constexpr uint32_t random_bits(const RandomKey& key, uint64_t row, uint64_t col,
                                     uint64_t cols, int bits) {
  const uint64_t group = row * ((cols + 7) / 8) + col / 8;
  const uint32_t i = static_cast<uint32_t>(col % 8);
  const auto half = [&](const PhiloxBlock& block) {
    return (block[i / 2] >> (16 * (i % 2))) & 0xFFFFu;
  };
  const uint32_t high = half(draw(key, group));
  if (bits == 8) return high >> 8;
  if (bits == 16) return high;
  return (high << 16) | half(draw(key, group, 0x80));
}

}  // namespace ng
