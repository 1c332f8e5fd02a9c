// A recipe: in which numbers each GEMM, state and message of a training run is. Pure data; TOML in,
// resolved structs out. [recipes.md §7]
//
// base < phase < override: a file's keys are put over those of the recipe it inherits from; from
// its start on, a phase's keys, of GEMMs and `compute` only, are put over that; overrides come
// last, each over those before it, for the layers it means: `layers` are patterns of names ("*"
// means the head too), `blocks` is a slice of the blocks; without either it means all layers of the
// blocks. An override's key must have an effect on some layer in some phase.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "recipe/settings.h"

namespace ng {

/// Where a layer stands, for overrides.
struct LayerPlace {
  std::string_view name;  ///< canonical: "blocks.3.mlp.up", "head" (recipe/layer_names.h)
  int64_t block = -1;     ///< -1 outside the blocks
  int64_t depth = 0;      ///< number of blocks
};

/// The layers of a model that recipes speak of, by their canonical names.
struct ModelLayers {
  std::vector<std::string> names;  ///< linear layers, the head's too, and tables of embeddings
  int64_t depth = 0;               ///< blocks
};

/// A part of a recipe that holds for some layers of a model.
struct RecipeMatch {
  std::string key;                    ///< "override[1]", "weight_noise", "phase[1]"
  std::string place;                  ///< file and line
  std::vector<std::string> patterns;  ///< its `layers`; of a phase none
  std::string blocks;                 ///< its slice of blocks, where it has one
  double start = 0;                   ///< of a phase: the share of training before it
  bool is_optional = false;           ///< may mean no layer
  std::vector<std::string> layers;    ///< that it means; of a phase, whose GEMMs it changes

  [[nodiscard]] bool is_phase() const { return start > 0; }
};

struct RecipeSource;

/// A loaded recipe: inheritance merged, every key and rule checked.
class Recipe {
 public:
  /// By path (ends in .toml or has a slash) or by name, searched in `folder` (where not empty),
  /// then in recipe_folders(); of several lines, the TOML itself.
  [[nodiscard]] static Recipe load(const std::string& name_or_path, const std::string& folder = "");
  /// From TOML text; `place` names it in errors, its folder is searched first by `inherit`.
  [[nodiscard]] static Recipe parse(std::string_view toml, const std::string& place);
  /// Of documents that were read.
  [[nodiscard]] static Recipe of(RecipeSource source);

  [[nodiscard]] const std::string& name() const;
  /// The file or place it came from.
  [[nodiscard]] const std::string& place() const;
  /// The complete recipe as TOML, every key written out: loads back to an equal recipe.
  [[nodiscard]] std::string resolved_toml() const;
  /// All that resolved_toml() says but the name, key by key, each value as TOML; keys of the second
  /// override are "override[2].layers", of the first phase after the base "phase[1].start".
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> values() const;
  /// 16 hex digits: FNV-1a over what differs from the defaults, without the name. Equal recipes
  /// have equal hashes whatever they are called, however base and phases were written, and in every
  /// version whose keys mean the same: checkpoints carry it.
  [[nodiscard]] std::string hash() const;
  /// The same over every key that resolved_toml() had when checkpoints knew recipes so.
  [[nodiscard]] std::string hash_of_all_keys() const;
  /// What the user should know: "stochastic rounding on a forward operand ...".
  [[nodiscard]] const std::vector<std::string>& warnings() const;

  /// Which layers of a model each override means, the base's weight noise where it has some, and
  /// each phase, in this order.
  [[nodiscard]] std::vector<RecipeMatch> matches(const ModelLayers& model) const;

  /// Fractions of training at which a phase begins, ascending, the first 0.
  [[nodiscard]] const std::vector<double>& phase_starts() const;
  /// Index of the phase in force at `progress` = step / steps.
  [[nodiscard]] int phase_at(double progress) const;

  /// All that a phase says, before overrides.
  [[nodiscard]] const RecipeSettings& settings(int phase) const;
  [[nodiscard]] Compute compute(int phase) const;
  /// Of one layer: base < phase < override. Outside the blocks,
  /// - the head's GEMMs follow `compute` and no `linear` key,
  /// - weights in a format with scales are FP32, [recipes.md §7]
  /// unless an override's `layers` match the name: one without `layers` leaves it alone. Noise is
  /// `none` for a layer that weight_noise.layers does not mean.
  [[nodiscard]] LayerRecipe layer(const LayerPlace& place, int phase) const;
  /// Of a model that is evaluated beside the one that this recipe trains: the same GEMMs; weights
  /// without master, carry and noise, stored as `storage`, vectors and, where that has scales, what
  /// lies outside of the blocks in FP32. Without `storage` they are stored as those that are
  /// trained.
  [[nodiscard]] Recipe frozen(const std::optional<Operand>& storage) const;
  [[nodiscard]] bool is_frozen() const;
  /// Frozen without a storage of its own.
  [[nodiscard]] bool is_stored_as_trained() const;
  /// Its GEMMs alone.
  [[nodiscard]] LinearRecipe linear(const LayerPlace& place, int phase) const;
  /// Of each phase.
  [[nodiscard]] std::vector<LinearRecipe> linears(const LayerPlace& place) const;

 private:
  struct Data;
  explicit Recipe(std::shared_ptr<const Data> data) : data_(std::move(data)) {}
  std::shared_ptr<const Data> data_;
};

/// How many of the steps of a training are done before a phase that starts at this share of them:
/// the first at which phase_at(step / steps) is that phase.
[[nodiscard]] int64_t steps_before(double start, int64_t steps);

/// Folders searched for recipes by name, first match wins: those of $NARROWGAUGE_RECIPES (separated
/// by colons), that of set_recipe_folder(), recipes/ of the source tree, the installed
/// share/narrowgauge/recipes.
[[nodiscard]] std::vector<std::string> recipe_folders();

/// Where a package keeps its recipes that lies beside no program of ours.
void set_recipe_folder(std::string folder);

/// Names of all recipes in recipe_folders(), sorted.
[[nodiscard]] std::vector<std::string> recipe_names();

/// What differs between two recipes, in a phrase: "fp8-delayed, but this run has bf16
/// (linear.fprop.input: {...} -> "bf16", ... and 3 more)".
[[nodiscard]] std::string difference_text(const Recipe& before, const Recipe& now);

}  // namespace ng
