// Updates of tensors as common recipes store them: 1,024 values at a time go from codes to codes
// through the first cache and registers. The general way is updater.cc's; bits are equal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "backend/cpu/quantize/kernels.h"
#include "backend/cpu/update/elements.h"

namespace ng::cpu {

constexpr int64_t kChunk = 1024;

/// A tensor whose values lie side by side.
struct ChunkTensor {
  enum class Kind : uint8_t { none, other, fp32, bf16, fp16, e4m3 };
  Kind kind = Kind::none;
  std::byte* data = nullptr;
  ElementGrid grid{};
  RandomKey key{};
  bool is_stochastic = false;
  float* scales = nullptr;  ///< of blocks: what they decode by
  int64_t block = 0;        ///< e4m3: values of a scale, found with them; 0: one scale for all
  bool has_powers = false;  ///< those scales are powers of two
  float decode = 1;         ///< the one scale for all, as stored
  float encode = 1;         ///< the one that was found for new values
};

/// AdamW on such tensors.
struct ChunkJob {
  ChunkTensor value, master, moment1, moment2, grad;
  std::byte* carry = nullptr;
  UpdateRule rule = UpdateRule::nearest;
  ResidualRules before{}, after{};  ///< of the residuals that are there, and of the new ones
  OptimizerNumbers numbers{};
  float grad_scale = 1;
  float step = 0;  ///< w + step·u
};

/// Whether all its tensors are of kinds that update_chunks knows.
[[nodiscard]] bool is_common(const ChunkJob& job);

struct ChunkBuffers {
  alignas(64) float w[kChunk], m[kChunk], v[kChunk], g[kChunk], x[kChunk];
  alignas(64) uint16_t draws[kChunk];
};

/// Values [first, first + count), whole chunks.
void update_chunks(const ChunkJob& job, int64_t first, int64_t count, ChunkBuffers& buffers);

/// Bits of the largest |value| so far, NaN on top.
struct ChunkMaxima {
  uint32_t weight = 0, moment1 = 0, moment2 = 0;
};
/// With what values [first, first + count), whole chunks, would be before they are rounded; the
/// weight's only if `asks_weight`. Not for the rules kahan and residual.
void find_maxima(const ChunkJob& job, bool asks_weight, int64_t first, int64_t count,
                 ChunkBuffers& buffers, ChunkMaxima& maxima);

/// w and u of values [first, first + count), whole chunks, in FP32; of each chunk the first
/// `taken`, a multiple of 16, side by side. Moments stay as they are.
void find_direction(const ChunkJob& job, int64_t first, int64_t count, int64_t taken,
                    ChunkBuffers& buffers, float* w, float* u);

/// squares[i] += Σ (RN(w + alphas[i]·u) - w)² in FP64, RN as `value` is rounded to nearest; in the
/// order of squared_distance.
void add_moved_squares(const ChunkTensor& value, const float* w, const float* u, int64_t count,
                       std::span<const float> alphas, double* squares);

}  // namespace ng::cpu
