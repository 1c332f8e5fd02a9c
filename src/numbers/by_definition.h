// Elements that no GEMM takes, one value at a time by the scalar definition: unsigned formats,
// powers of two, affine integers. [formats.md §2, §6]
#pragma once

#include <span>

#include "backend/cpu/quantize/source.h"
#include "numbers/narrow_matrix.h"
#include "numbers/value_range.h"

namespace ng {

/// Whether a cast is none of a GEMM operand.
[[nodiscard]] bool is_by_definition(const Operand& cast);

/// Where stochastic rounding finds its random numbers.
struct Draws {
  RandomKey key;
  cpu::DrawGroups groups;
};

/// `out` has all but codes, scales, zeros and counts; `ranges`: of what all of `panel` is a part of
/// (1) or of each column, empty where every block lies in the panel.
void encode_by_definition(Rows<const float> panel, const Draws& draws,
                          std::span<const ValueRange> ranges, NarrowMatrix& out, Threads threads);

}  // namespace ng
