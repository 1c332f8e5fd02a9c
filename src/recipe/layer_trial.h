// What overrides say is checked on layers, not alone: one may change what another says.
#pragma once

#include <functional>
#include <vector>

#include "recipe/resolve.h"

namespace ng {

/// Resolves the layers of models of many depths and calls `use` with what they get, once for each
/// phase and each combination of overrides. Throws Error where a layer's keys contradict, and where
/// a key of an override has no effect in any phase of any layer. Overrides for layers that none of
/// these models has (blocks = "200:") are not checked but used, as if each held alone; their
/// numbers are returned.
[[nodiscard]] std::vector<size_t> try_layers(const ResolvedRecipe& recipe,
                                             const std::function<void(const RecipeSettings&)>& use);

}  // namespace ng
