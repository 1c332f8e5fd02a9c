// Elements that no GEMM takes, one value at a time by the scalar definition: unsigned formats,
// powers of two, affine integers. [formats.md §2, §6]
#pragma once

#include <vector>

#include "numbers/narrow_matrix.h"
#include "numbers/value_range.h"

namespace ng {

/// Whether a cast is none of a GEMM operand.
[[nodiscard]] bool is_by_definition(const Operand& cast);

/// `panel` begins at `first_row` of its matrix. `out` has all but codes, scales, zeros and counts;
/// `ranges`: of the whole matrix (1) or of each column, empty where every block lies in the panel.
void encode_by_definition(ConstView panel, int64_t first_row, const RandomKey& key,
                          const std::vector<ValueRange>& ranges, NarrowMatrix& out,
                          Threads threads);

}  // namespace ng
