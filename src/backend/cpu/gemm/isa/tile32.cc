#include "backend/cpu/gemm/isa/tile32.h"

namespace ng::cpu {

Tile32Kernel* current_tile32() {
  switch (current_isa()) {
    case Isa::scalar:
      return tile32_scalar;
    case Isa::avx2:
    case Isa::avxvnni:
      return tile32_avx2;
    case Isa::avx512:
    case Isa::avx512vnni:
    case Isa::avx512bf16:
    case Isa::avx512amx:
      return tile32_avx512;
  }
  return nullptr;
}

}  // namespace ng::cpu
