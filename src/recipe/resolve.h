// From documents to settings: base, phases, overrides, and the rules that bind them. The rules of
// overridden settings are checked by try_layers().
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/keys.h"
#include "recipe/block_slice.h"
#include "recipe/recipe.h"
#include "recipe/source.h"

namespace ng {

/// Keys for some layers. One that says neither `layers` nor `blocks` gets blocks = ":", so that
/// only `layers` can mean the head.
struct RecipeOverride {
  std::vector<std::string> layers = {"*"};
  std::optional<BlockSlice> blocks;
  const toml::table* patch = nullptr;  ///< lives in a document of the source
  std::string prefix;                  ///< what leads to it there: "override."
  std::string place;
  bool is_optional = false;  ///< may mean no layer of a model

  [[nodiscard]] bool matches(const LayerPlace& layer) const;
  /// Reads the keys without checking what they say together with those there.
  void read_into(RecipeSettings& settings) const;
  /// The same, of a copy.
  [[nodiscard]] RecipeSettings over(RecipeSettings settings) const {
    read_into(settings);
    return settings;
  }
  /// Whether it says of weights what `before` does not: an embedding has no GEMM, but its table is
  /// stored as its layer says.
  [[nodiscard]] bool changes_weights(const RecipeSettings& before) const {
    return !(over(before).weights == before.weights);
  }
  /// Its keys without effect, where it was read into `settings` last.
  [[nodiscard]] std::vector<Error> unused_keys(const RecipeSettings& settings) const;
};

/// Sees the number of an override and what it leaves.
using AfterOverride = std::function<void(size_t, const RecipeSettings&)>;

/// A recipe with every document read.
struct ResolvedRecipe {
  RecipeSource source;
  std::vector<double> phase_starts;
  std::vector<RecipeSettings> phases;             ///< complete: base, base + phase 1, ...
  std::vector<const toml::table*> phase_patches;  ///< one less: what each phase changes
  std::vector<RecipeOverride> overrides;

  /// All settings of a layer in a phase: each override changes what those before it left. Throws
  /// Error where they contradict, naming the layer.
  [[nodiscard]] RecipeSettings settings_of(const LayerPlace& layer, int phase,
                                           const AfterOverride& after = {}) const;
};

/// The keys beside settings_keys(): name, inherit, override.layers ... phase.start.
[[nodiscard]] std::vector<KeyRow> structure_rows();

/// Is there noise on this layer's weights, where `settings` are its own?
[[nodiscard]] bool has_noise(const RecipeSettings& settings, const LayerPlace& layer);

/// Reads all keys; checks each value, and the rules of the base and of the phases.
[[nodiscard]] ResolvedRecipe resolve_recipe(RecipeSource source);

}  // namespace ng
