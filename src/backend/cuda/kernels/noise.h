// Noise on weights as kernels draw it. [noise_operations.h; drawn_noise.h]
#pragma once

#include "backend/cuda/kernels/operand_groups.h"
#include "backend/cuda/kernels/stored.h"
#include "math/weight_noise.h"

namespace ng::cuda {

/// One number of the card's memory that there may not be.
using Number = const float*;

/// A NoisyWeight.
struct CardNoise {
  NoiseKind kind = NoiseKind::gaussws;
  StoredSource weight;
  int64_t rows = 0, cols = 0;
  int64_t height = 1, width = 1;      ///< of a block
  const float* bit_widths = nullptr;  ///< b_i of each block; nipq: β
  int64_t bits_stride = 0;
  float b_init = 0, b_target = 0;
  StepKey key, bits_key;
  const float* given = nullptr;  ///< noise; null: drawn
  int64_t given_stride = 0;
  Number clip = nullptr, bit_noise = nullptr;

  [[nodiscard]] NG_HD int64_t down() const { return (rows + height - 1) / height; }
  [[nodiscard]] NG_HD int64_t across() const { return (cols + width - 1) / width; }

  /// R of GaussWS and DiffQ, n of NIPQ.
  [[nodiscard]] __device__ float noise(int64_t row, int64_t col) const {
    if (given != nullptr) return given[row * given_stride + col];
    if (kind == NoiseKind::gaussws) {
      const auto group = static_cast<uint64_t>(row * ((cols + 7) / 8) + col / 8);
      return rounded_normal_of(rounded_normals(draw(key.now(), group)) >> (4 * (col % 8)));
    }
    const float uniform =
        centered_uniform(random_bits(key.now(), static_cast<uint64_t>(row),
                                     static_cast<uint64_t>(col), static_cast<uint64_t>(cols), 16));
    return kind == NoiseKind::diffq ? round_to_bf16(uniform) : uniform;
  }
  /// b_t of the block at (i, j); nipq: b, without noise.
  [[nodiscard]] __device__ float bits(int64_t i, int64_t j) const {
    const float learned = bit_widths[i * bits_stride + j];
    return kind == NoiseKind::nipq ? static_cast<float>(proxy_bits(learned))
                                   : bits_of_block(learned, b_init, b_target);
  }
  /// nipq in training, with the noise of its bit-width; `is_quiet`: at evaluation.
  [[nodiscard]] __device__ NoiseProxy proxy(bool is_quiet) const {
    double u = 0;
    if (!is_quiet)
      u = bit_noise != nullptr ? double{*bit_noise}
                               : double{centered_uniform(random_bits(bits_key.now(), 0, 0, 1, 16))};
    return {double{*clip}, double{*bit_widths}, u};
  }
};
[[nodiscard]] CardNoise card_noise(Stream stream, const NoisyWeight& of);

}  // namespace ng::cuda
