// Weights whose blocks have scales, as an update rounds them value by value once these were chosen.
#pragma once

#include "backend/cuda/kernels/block_scale.h"

namespace ng::cuda {

/// How values of some rows become codes, and what these stand for.
struct BlockCast {
  RegionRule rule;
  BlockScales blocks{};               ///< of the tensor, as they lie there
  const RegionScale* made = nullptr;  ///< the new scales of the rows' blocks
  int64_t first_row = 0;              ///< of the rows, which begins a block
  int64_t cols = 0;                   ///< of the tensor, for the draws

  [[nodiscard]] __device__ uint32_t code(int64_t row, int64_t col, float x) const {
    const RegionScale& by = of(row, col);
    if (by.is_nan) return 0;
    return rule.code(by, rule.scaled(by, x), rounder_of(rule.element, row, col, cols));
  }
  /// What elements there are multiplied by.
  [[nodiscard]] __device__ float scale(int64_t row, int64_t col) const {
    const float own = of(row, col).stored;
    return rule.second.data != nullptr ? own * rule.second.decode(row, col) : own;
  }
  [[nodiscard]] __device__ float value(int64_t row, int64_t col, uint32_t code) const {
    const RegionScale& by = of(row, col);
    const float value = rule.decoded(by, code) * by.stored;
    return rule.second.data != nullptr ? value * rule.second.decode(row, col) : value;
  }

 private:
  [[nodiscard]] __device__ const RegionScale& of(int64_t row, int64_t col) const {
    return made[blocks.index(row - first_row, col)];
  }
};

/// Of a weight that is rounded without.
struct NoBlockCast {};

}  // namespace ng::cuda
