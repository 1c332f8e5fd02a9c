// From documents to settings: base, phases, overrides, and the rules that bind them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "recipe/block_slice.h"
#include "recipe/recipe.h"
#include "recipe/source.h"

namespace ng {

/// Keys for some layers.
struct RecipeOverride {
  std::vector<std::string> layers = {"*"};
  std::optional<BlockSlice> blocks;
  const toml::table* patch = nullptr;  ///< lives in a document of the source
  std::string place;

  [[nodiscard]] bool matches(const LayerPlace& layer) const;
};

/// A recipe with every document read.
struct ResolvedRecipe {
  RecipeSource source;
  std::vector<double> phase_starts;
  std::vector<RecipeSettings> phases;             ///< complete: base, base + phase 1, ...
  std::vector<const toml::table*> phase_patches;  ///< one less: what each phase changes
  std::vector<RecipeOverride> overrides;

  /// All settings of a layer in a phase, overrides applied. Throws Error where they contradict.
  [[nodiscard]] RecipeSettings settings_of(const LayerPlace& layer, int phase) const;
};

/// Reads all keys and checks every rule on models of several depths.
[[nodiscard]] ResolvedRecipe resolve_recipe(RecipeSource source);

}  // namespace ng
