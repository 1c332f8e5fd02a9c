// Vector kernels of weight noise, for a panel: some rows of a strip of tiles of 32 × 32 weights,
// from a tile's first column on.
#pragma once

#include <cstdint>

#include "backend/noise_operations.h"

namespace ng::cpu {

constexpr int64_t kNoiseTile = kNoiseBlock;
constexpr int64_t kPanelColumns = 1024;

/// Draws of a panel: of GaussWS a word of eight nibbles (draw_nibbles) a group, else 16 bits an
/// element; whole groups, an even number in a row.
struct PanelDraws {
  const uint32_t* nibbles = nullptr;
  const uint16_t* halves = nullptr;
  int64_t stride = 0;
};

/// The weights of a panel and what is drawn for them.
struct NoisePanel {
  NoiseKind kind = NoiseKind::gaussws;
  ConstView weight;
  PanelDraws draws;
  const float* scales = nullptr;  ///< of each tile; nipq: Δ for all
  float alpha = 0;                ///< nipq
};

/// Bits of the largest magnitude of each tile; NaN is larger than any number.
void find_maxima(const ConstView& weight, uint32_t* maxima);

/// y = ŵ
void add_noise(const NoisePanel& panel, const View& y);

/// nipq at evaluation: y = ±α where |w| >= α, else the nearest multiple of Δ.
void quantize_by_proxy(const ConstView& weight, float alpha, float delta, const View& y);

/// Σ dL/dŵ·noise of each tile.
void sum_tiles(const NoisePanel& panel, const ConstView& grad, float* sums);

/// nipq: the same where weights are not clipped, and Σ ±dL/dŵ where they are, ± being their sign;
/// there `grad` becomes 0.
struct ClippedSums {
  double* by_noise = nullptr;
  double* by_clip = nullptr;
};
void sum_clipped_tiles(const NoisePanel& panel, const View& grad, const ClippedSums& sums);

}  // namespace ng::cpu
