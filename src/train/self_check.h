// Before a run: does this machine multiply as the definition does?
#pragma once

#include <span>

#include "backend/backend.h"
#include "recipe/recipe.h"

namespace ng {

/// Runs the GEMMs of `recipes`, each distinct one once, on small known matrices in `backend` and in
/// `reference`, activations and outputs stored as `compute` says, and compares the products to the
/// bit, or where the backend sums in an order of its own [Backend::sum_units] by how far that
/// can be off. Returns how many GEMMs there are. Throws Error naming the first that differs.
int self_check(Backend& backend, Backend& reference, std::span<const LinearRecipe> recipes,
               Compute compute);

}  // namespace ng
