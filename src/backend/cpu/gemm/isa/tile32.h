// Kernels of SumOrder::tile32, one row of a table per instruction set.
#pragma once

#include "backend/cpu/gemm/isa/microkernel.h"

namespace ng::cpu {

/// to[i][j] = from[i][j] + the products of FP32 elements, summed as that order has it: `count` is a
/// multiple of 32, `from` and `to` may be the same. Panels and tiles are those of current_isa()'s
/// Microkernel.
using Tile32Kernel = ChainKernel;

Tile32Kernel tile32_scalar;
Tile32Kernel tile32_avx2;
Tile32Kernel tile32_avx512;

/// That of current_isa().
[[nodiscard]] Tile32Kernel* current_tile32();

}  // namespace ng::cpu
