#include "backend/cpu/gemm/isa/matrix.h"

namespace ng::cpu {
namespace {

constexpr MatrixKernels with_dots(Isa isa, const DotKernels& dots, Tile32Kernel* tile32) {
  return {.kernel = {.isa = isa,
                     .rows = 32,
                     .cols = 32,
                     .fp32 = {},
                     .bf16 = {},
                     .dots = dots,
                     .short_dots = {},
                     .int16_dots = {}},
          .tile32 = tile32};
}

constexpr MatrixKernels kScalar =
    with_dots(Isa::scalar, {dot_scalar_tiles, dot_scaled_scalar_tiles}, tile32_scalar_tiles);
constexpr MatrixKernels kAmx = with_dots(Isa::avx512amx, {dot_amx, dot_scaled_amx}, tile32_amx);

}  // namespace

const MatrixKernels* current_matrix_kernels() {
  return current_isa() == Isa::avx512amx ? &kAmx : nullptr;
}

const MatrixKernels& scalar_matrix_kernels() { return kScalar; }

}  // namespace ng::cpu
