// The values of an operand as a warp takes them: a group along K that goes through a Hadamard
// transform together, or shares a scale, or is a block of 32. And what is counted of them.
#pragma once

#include "backend/cuda/kernels/hadamard.h"
#include "backend/cuda/kernels/mx_block.h"
#include "backend/cuda/kernels/stored_source.h"
#include "backend/cuda/kernels/values.h"

namespace ng::cuda {

constexpr int kOperandTile = 64;  ///< rows and columns of a source that are read at once

/// A group of an operand: of values first, first + 1 ... of a row along K.
struct GroupPlace {
  int64_t row = 0, first = 0;
  /// Where value `lane` of block `b` stands along K.
  [[nodiscard]] NG_HD int64_t at(int b, int lane) const { return first + b * kMxBlock + lane; }
};

struct OperandGroups {
  StoredSource source;
  bool is_turned = false;  ///< Contract::rows
  CardHadamard hadamard;
  int64_t rows = 0, k = 0, k_padded = 0;
  int64_t first_row = 0, first_col = 0, whole_cols = 0;  ///< where the source lies, for the draws
  int together = kMxBlock;  ///< values along K that a group has at least: a multiple of 32

  [[nodiscard]] NG_HD int group() const {
    return hadamard.size > together ? hadamard.size : together;
  }
  [[nodiscard]] NG_HD bool fits_tile() const { return group() <= kOperandTile; }
  [[nodiscard]] NG_HD int64_t groups() const { return (k_padded + group() - 1) / group(); }
  [[nodiscard]] NG_HD int blocks() const { return group() / kMxBlock; }

  /// What the encoder rounds, 0 outside; each lane has one value of each block.
  __device__ void load(const GroupPlace& of, int lane, float (&x)[kMostHadamardBlocks]) const {
    for (int b = 0; b < kMostHadamardBlocks; ++b) {
      const int64_t place = of.at(b, lane);
      const bool is_inside = b < blocks() && place < k;
      x[b] = !is_inside ? 0.0f : is_turned ? source(place, of.row) : source(of.row, place);
    }
    transform(lane, x);
  }
  __device__ void transform(int lane, float (&x)[kMostHadamardBlocks]) const {
    if (hadamard.size == 0) return;
    for (int b = 0; b < kMostHadamardBlocks; ++b)
      if (hadamard.is_negative(b, lane)) x[b] = -x[b];
    butterflies_of_warp(x, lane, hadamard.size);
    for (float& value : x) value *= hadamard_factor(hadamard.size);
  }
  /// Of a value's draw.
  [[nodiscard]] __device__ int64_t draw_row(int64_t row, int64_t place) const {
    return (is_turned ? place : row) + first_row;
  }
  [[nodiscard]] __device__ int64_t draw_col(int64_t row, int64_t place) const {
    return (is_turned ? row : place) + first_col;
  }
};

[[nodiscard]] inline OperandGroups operand_groups(Stream stream, const OperandSpec& spec,
                                                  const ConstView& source,
                                                  const PrepareContext& context) {
  const bool is_straight = spec.contract == Contract::cols;
  NG_CHECK((is_straight ? source.rows : source.cols) == spec.rows, source.rows, source.cols,
           spec.rows);
  NG_CHECK((is_straight ? source.cols : source.rows) == spec.k, source.rows, source.cols, spec.k);
  return {.source = stored_source(source),
          .is_turned = !is_straight,
          .hadamard = card_hadamard(stream, spec.hadamard),
          .rows = spec.rows,
          .k = spec.k,
          .k_padded = spec.k_padded(),
          .first_row = context.first_row,
          .first_col = context.first_col,
          .whole_cols = context.whole_cols > 0 ? context.whole_cols : source.cols};
}

// ---------------------------------------------------------------- counters

using Count = unsigned long long;

__device__ inline void count_one(uint64_t* counter) {
  atomicAdd(reinterpret_cast<Count*>(counter), 1);
}
__device__ inline void count_values(OperandStats* stats, int64_t values) {
  atomicAdd(reinterpret_cast<Count*>(&stats->values), static_cast<Count>(values));
}

/// Of the values of a lane.
struct CastCounts {
  uint32_t inf = 0, nan = 0, saturated = 0, flushed = 0;

  /// NaN and infinities of a value before it is scaled.
  __device__ void take_nonfinite(float z) {
    const uint32_t magnitude = float_bits(z) & 0x7FFFFFFFu;
    inf += magnitude == kFloatInf ? 1 : 0;
    nan += magnitude > kFloatInf ? 1 : 0;
  }
  /// What became of a finite value z of which the encoder was given y.
  __device__ void take_rounded(float z, float y, float max, bool is_zero) {
    if ((float_bits(z) & 0x7FFFFFFFu) >= kFloatInf) return;
    saturated += y > max || -y > max ? 1 : 0;
    flushed += z != 0 && is_zero ? 1 : 0;
  }
  /// Those of all lanes of a warp, once: a card adds to one address one by one.
  __device__ void put(OperandStats* stats, int lane) const {
    put_sum(&stats->inf, inf, lane);
    put_sum(&stats->nan, nan, lane);
    put_sum(&stats->saturated, saturated, lane);
    put_sum(&stats->flushed, flushed, lane);
  }

 private:
  __device__ static void put_sum(uint64_t* counter, uint32_t of_lane, int lane) {
    if (!__any_sync(~0u, of_lane != 0)) return;
    const uint32_t all = sum_of_warp(of_lane);
    if (lane == 0) atomicAdd(reinterpret_cast<Count*>(counter), static_cast<Count>(all));
  }
};

}  // namespace ng::cuda
