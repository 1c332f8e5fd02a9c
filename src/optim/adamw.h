// AdamW with decoupled weight decay on tensors of two dimensions. [recipes.md §6]
#pragma once

#include <cstdint>
#include <span>

#include "nn/parameter.h"

namespace ng {

struct AdamWSettings {
  float beta1 = 0.9f;
  float beta2 = 0.95f;
  float eps = 1e-8f;
  float weight_decay = 0.1f;
};

/// Claims the moments of every parameter.
void allocate_adamw(Run& run, std::span<Parameter> parameters);

/// One update; `step` counts from 0. Reads clip factor and skip flag from `control`.
void update_adamw(Run& run, std::span<Parameter> parameters, const AdamWSettings& settings,
                  float lr, int64_t step, const StepControl* control);

}  // namespace ng
