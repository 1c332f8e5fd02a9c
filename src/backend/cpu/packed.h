// Layout of a prepared operand of the cpu backend. `quantize` writes it, the GEMM driver reads it.
//
//   elements  [rows][k_padded]  decoded element values, unscaled, 64-byte aligned: BF16 patterns
//                               (exact for every element format of at most 8 bits and BF16) or,
//                               where element_bytes is 4 (all others), FP32.
//   scales    [rows][blocks]    FP32 decode multipliers of the blocks along K, expanded to every
//                               row (tiles of r rows repeat theirs): 2^(c-127) for E8M0 (c = 255:
//                               NaN), decoded E4M3 for NVFP4, 1/s for FP8 blocks, s for integers,
//                               1 where there is no scale. blocks = 1 for "row" and "tensor".
//   tensor    [16]              FP32; [0]: scale of the whole tensor (NVFP4's s_t, else 1).
//
// Nearest FP32, BF16 and FP16 operands without scale, prescale and Hadamard transform have no
// storage: the driver reads the source in place and rounds while it packs its panels.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/backend.h"

namespace ng::cpu {

struct PackedLayout {
  int64_t block = 0;       ///< values along K per scale; k_padded for "row" and "tensor"
  int64_t blocks = 0;      ///< scales per row
  int element_bytes = 2;   ///< 2: BF16 patterns, 4: FP32
  size_t elements_at = 0;  ///< byte offsets into the storage
  size_t scales_at = 0;
  size_t tensor_at = 0;
  size_t bytes = 0;
};

/// The driver reads the values of such an operand from its source.
[[nodiscard]] bool is_read_in_place(const OperandSpec& spec);

/// Sizes and offsets zero where the operand is read in place.
[[nodiscard]] PackedLayout packed_layout(const OperandSpec& spec);

}  // namespace ng::cpu
