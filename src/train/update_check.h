// Before a run: does this machine update weights as the definition does?
#pragma once

#include <memory>
#include <span>

#include "backend/backend.h"
#include "optim/optimizer.h"

namespace ng {

/// Stores and updates one small known tensor for each way in which `parameters` are stored, rounded
/// and, by the optimizer's moments, updated, in `backend` and in `reference`, and compares all that
/// persists to the bit. Returns how many ways there are. Throws Error naming the first state that
/// differs.
int check_updates(std::unique_ptr<Backend> backend, std::unique_ptr<Backend> reference,
                  const OptimizerRecipe& recipe, const OptimizerSettings& settings,
                  std::span<const Parameter> parameters);

}  // namespace ng
