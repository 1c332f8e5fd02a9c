// What a training step does after the gradients are there.
#pragma once

#include "backend/backend.h"

namespace ng::ref {

/// Norm, clip factor and whether to skip. [recipes.md §6, "Clip"]
void decide_step(StepControl* control, const double* sum_of_squares, double clip,
                 const OperandStats* stats, int64_t stats_count);

/// AdamW on one tensor. [recipes.md §6]
void adamw(const AdamW& args);

}  // namespace ng::ref
