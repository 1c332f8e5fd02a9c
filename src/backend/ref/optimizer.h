// What a training step does after the gradients are there.
#pragma once

#include "backend/backend.h"

namespace ng::ref {

/// AdamW on one tensor. [recipes.md §6]
void adamw(const AdamW& args);

}  // namespace ng::ref
