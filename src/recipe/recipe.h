// A recipe: in which numbers each GEMM, state and message of a training run is. Pure data; TOML in,
// resolved structs out. [recipes.md §7]
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"

namespace ng {

enum class HadamardSigns : uint8_t { random, fixed, none };

/// One of the three GEMMs of a linear layer: y = left · rightᵀ.
struct GemmRecipe {
  Operand left;   ///< fprop.input, dgrad.grad, wgrad.grad
  Operand right;  ///< fprop.weight, dgrad.weight, wgrad.input
  int hadamard = 0;
  HadamardSigns hadamard_signs = HadamardSigns::random;
  Compute output = Compute::fp32;  ///< fprop and dgrad only
  friend bool operator==(const GemmRecipe&, const GemmRecipe&) = default;
};

/// The numbers of one linear layer.
struct LinearRecipe {
  GemmRecipe fprop, dgrad, wgrad;
  friend bool operator==(const LinearRecipe&, const LinearRecipe&) = default;

  /// fprop.weight and dgrad.weight are the same codes, quantized once. [recipes.md §7 (c)]
  [[nodiscard]] bool one_weight_serves_both() const;
};

/// Where a linear layer stands, for overrides.
struct LayerPlace {
  std::string_view name;  ///< canonical: "blocks.3.mlp.up", "head"
  int64_t block = -1;     ///< -1 outside the blocks
  int64_t depth = 0;      ///< number of blocks
};

/// A loaded recipe: inheritance merged, keys checked, overrides and phases not yet applied.
class Recipe {
 public:
  /// By name (searched in `recipe_folders()`) or by path of a .toml file.
  [[nodiscard]] static Recipe load(const std::string& name_or_path);
  /// From TOML text; `place` names it in errors.
  [[nodiscard]] static Recipe parse(std::string_view toml, const std::string& place);

  [[nodiscard]] const std::string& name() const;
  /// The complete recipe as TOML, every key written out: loads back to an equal recipe.
  [[nodiscard]] std::string resolved_toml() const;
  /// First 16 hex digits of a hash over the resolved text without its name.
  [[nodiscard]] std::string hash() const;
  /// What the user should know: "stochastic rounding on a forward operand biases ...".
  [[nodiscard]] const std::vector<std::string>& warnings() const;

  /// Fractions of training at which a phase begins, ascending, the first 0.
  [[nodiscard]] const std::vector<double>& phase_starts() const;
  /// Index of the phase in force at `progress` = step / steps.
  [[nodiscard]] int phase_at(double progress) const;

  [[nodiscard]] Compute compute(int phase) const;
  /// Numbers of a linear layer: base < phase < override. The head follows `compute` unless an
  /// override names it.
  [[nodiscard]] LinearRecipe linear(const LayerPlace& place, int phase) const;

 private:
  struct Data;
  std::shared_ptr<const Data> data_;
};

/// Folders searched for recipes by name, first match wins: $NARROWGAUGE_RECIPES, the source tree's
/// recipes/, the installed share/narrowgauge/recipes.
[[nodiscard]] std::vector<std::string> recipe_folders();

/// Names of all recipes in recipe_folders(), sorted.
[[nodiscard]] std::vector<std::string> recipe_names();

}  // namespace ng
