// Operands in blocks of 1 x 2, 4 ... 128 values along K with E4M3 or FP32 scales of their largest
// magnitude: NVFP4, integers in blocks, FP8 in blocks of 1 x 128. What block_operand.h makes of any
// block these kernels make of values that the lanes of a warp hold, transforms included.
// [formats.md §5, §6]
#pragma once

#include "backend/cuda/kernels/block_operand.h"

namespace ng::cuda {

/// Whether it is made so.
[[nodiscard]] bool is_of_lines(const BlockJob& job);
/// And by tiles, together with another.
[[nodiscard]] bool is_of_short_lines(const BlockJob& job);

/// Codes and scales of blocks, where those of the second level are known.
void round_lines(Stream stream, const BlockJob& job);

/// Both operands of a matrix from one read of it, the second turned; false: not made, for lines
/// are not short.
[[nodiscard]] bool round_lines_both(Stream stream, const BlockJob& straight,
                                    const BlockJob& turned);

}  // namespace ng::cuda
