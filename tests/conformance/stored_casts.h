// Casts by which tensors persist.
#pragma once

#include <string_view>

#include "format/operand.h"

namespace ng::conformance {

inline Operand cast_of(std::string_view format, Rounding rounding = Rounding::nearest) {
  Operand cast = operand_of(format);
  cast.rounding = rounding;
  cast.overflow = Overflow::saturate;
  return cast;
}
inline Operand scaled_by_power(std::string_view format) {
  Operand cast = cast_of(format);
  cast.scale = ScaleKind::pow2;
  return cast;
}
inline Operand in_blocks(std::string_view format, int rows, int cols) {
  Operand cast = cast_of(format);
  cast.block = {.kind = Block::Kind::tile, .rows = rows, .cols = cols};
  return cast;
}

}  // namespace ng::conformance
