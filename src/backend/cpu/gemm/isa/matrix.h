// Kernels on matrix tiles, which take some products beside those of the Microkernel.
#pragma once

#include "backend/cpu/gemm/isa/tile32.h"

namespace ng::cpu {

/// Tiles are of 32 x 32 outputs, `kernel` has dots of words of int8 without bias, and no `starts`.
/// `tile32` takes pairs of BF16. Panels: tile_panels.h.
struct MatrixKernels {
  Microkernel kernel;
  Tile32Kernel* tile32;
};

Tile32Kernel tile32_scalar_tiles;
Tile32Kernel tile32_amx;
ScaledKernel dot_scaled_scalar_tiles;
ScaledKernel dot_scaled_amx;
DotKernel dot_scalar_tiles;
DotKernel dot_amx;

/// Those of current_isa(); null where it has none.
[[nodiscard]] const MatrixKernels* current_matrix_kernels();

/// Their definition, for any CPU.
[[nodiscard]] const MatrixKernels& scalar_matrix_kernels();

}  // namespace ng::cpu
