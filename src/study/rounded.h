// What a cast makes of values, and how large its error is. [formats.md §8]
#pragma once

#include <span>
#include <string_view>

#include "format/operand.h"
#include "numbers/errors.h"
#include "tensor/rows.h"

namespace ng::study {

/// -10·log10 of a relative mean squared error.
[[nodiscard]] double decibels(double relative_mse);

/// Rounds `x` to nearest, blocks along its columns, and compares. `factors`: empty, or what each of
/// as many equal runs of consecutive values (x is contiguous) was multiplied by; the sums are then
/// in the units from before that, so that every block weighs what it weighed there.
[[nodiscard]] ErrorMetrics cast_error(Rows<const float> x, const Operand& cast, Threads threads,
                                      std::span<const float> factors = {});

/// Blocks of 1 × `block` of an element; E4M3 scales have an FP32 scale of the tensor above them.
[[nodiscard]] Operand block_cast(std::string_view element, int block, ScaleKind scale,
                                 ScaleRule rule);

}  // namespace ng::study
