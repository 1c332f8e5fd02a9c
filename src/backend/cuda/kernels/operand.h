// GEMM operands on a card: read in place, or codes with their scales. [formats.md §4 to §6]
//
//   read in place  FP32, BF16 and FP16 without scale and transform, rounded to nearest: nothing is
//                  stored, the GEMM rounds what it reads
//   one scale      [rows][k_padded] codes of 8, 16 or 32 bits, up to a multiple of 4; then a
//                  CardScale: floats without scale, or with one for all of them
//   blocks         the same, two codes a byte where they have four bits; then [blocks down][blocks
//                  across] scales, E8M0 and E4M3 a byte each, else FP32; up to a multiple of 4,
//                  then the CardScales of a second level, [down][across]: one, or one for each
//                  region of tensor_block. Of a list of elements the second is said by bit 80 of
//                  the scale: its sign, with which elements go [format/element_list.h]
#pragma once

#include <limits>

#include "backend/cuda/kernels/mx_block.h"
#include "backend/cuda/kernels/stored_source.h"
#include "backend/cuda/kernels/values.h"
#include "format/element_list.h"

namespace ng::cuda {

/// A scale for all of an operand or for a region of it, in the card's memory.
struct CardScale {
  uint32_t amax = 0;  ///< bits of the largest magnitude, NaN aside
  uint32_t has_nan = 0;
  float multiplier = 1;  ///< of values before they are encoded; two levels: TwoLevelScale::block
  float decode = 1;      ///< of decoded elements, in the end
};

/// That of a warp's values, into a scale that was forgotten. Most warps find that a larger one was
/// there: they need no turn at the one address.
__device__ inline void put_largest(const Largest& of_lane, CardScale* scale, int lane) {
  const uint32_t all = largest_bits_of_warp(of_lane.bits);
  if (lane == 0 && all > scale->amax) atomicMax(&scale->amax, all);
  if (of_lane.has_nan) atomicMax(&scale->has_nan, 1u);
}

/// The only scale of an operand, or those of the second level, [down][across].
struct CardScales {
  static constexpr int64_t kAll = std::numeric_limits<int64_t>::max();
  CardScale* data = nullptr;                       ///< null: there are none
  int64_t region_rows = kAll, region_cols = kAll;  ///< rows and values along K that share one
  int64_t across = 1, count = 1;

  [[nodiscard]] __device__ CardScale* at(int64_t row, int64_t k) const {
    if (count == 1) return data;
    return data + row / region_rows * across + k / region_cols;
  }
  /// What values there are multiplied by in the end.
  [[nodiscard]] __device__ float decode(int64_t row, int64_t k) const {
    return data != nullptr ? at(row, k)->decode : 1.0f;
  }
};

/// An operand as a kernel reads it.
struct CardOperand {
  Source source;           ///< read in place
  bool is_turned = false;  ///< Contract::rows
  ElementCast element{};
  OtherElement other{};
  bool lists = false;    ///< blocks have one of two elements
  CodeRows codes{};      ///< where it is not read in place
  BlockScales scales{};  ///< of blocks, rows or the tensor
  CardScales second{};   ///< level, or the only scale
  bool stored = false;   ///< as codes
  bool blocked = false;  ///< in tiles: scales are those of blocks along K
  bool folded = false;   ///< the second level differs along K [Operand::has_folded_scales]
  int64_t rows = 0, k = 0, k_padded = 0;

  [[nodiscard]] NG_HD bool is_blocked() const { return blocked; }
  [[nodiscard]] NG_HD MxOperand mx() const { return {codes.data, scales.data}; }
  /// Of the block, without the second level.
  [[nodiscard]] __device__ float scale_at(int64_t row, int64_t at) const {
    return scales.data != nullptr ? scales.value(scales.index(row, at)) : 1.0f;
  }
  /// Of the block as products read it: with its region's where that differs along K.
  [[nodiscard]] __device__ float folded_scale(int64_t row, int64_t at) const {
    const float own = scale_at(row, at);
    return folded ? own * second.decode(row, at) : own;
  }
  /// What is left to the end of a product: all that is not a block's.
  [[nodiscard]] __device__ float late_scale(int64_t row) const {
    const float early = blocked ? 1.0f : scale_at(row, 0);
    return folded ? early : early * second.decode(row, 0);
  }
  /// The element without its scale; 0 outside.
  [[nodiscard]] __device__ float element_at(int64_t row, int64_t at) const {
    if (row >= rows || at >= k_padded) return 0;
    if (lists && has_other_element(scale_at(row, at))) return -other.value_of(codes(row, at));
    if (stored) return decode_element(element, codes(row, at));
    if (at >= k) return 0;
    const float x = is_turned ? source(at, row) : source(row, at);
    return decode_element(element, encode_element(element, x, {}));
  }
};

/// Throws Unsupported for casts that the backend lacks.
[[nodiscard]] CardOperand card_operand(const PackedOperand& packed);

}  // namespace ng::cuda
