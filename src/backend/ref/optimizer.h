// What a training step does after the gradients are there.
#pragma once

#include "backend/operations.h"

namespace ng::ref {

/// AdamW on one tensor; weight, m and v are FP32. [recipes.md §6]
void perform(const AdamW& op);
void perform(const DecideStep& op);

}  // namespace ng::ref
