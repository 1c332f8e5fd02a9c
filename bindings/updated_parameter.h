// A parameter as Python describes it to what updates it, and how its recipe has it.
#pragma once

#include <string>

#include "bind.h"
#include "optim/optimizer.h"
#include "recipe/recipe.h"
#include "tools/update_setup.h"

namespace ng::python {

struct UpdatedParameter {
  std::string name;  ///< "blocks.0.mlp.up.weight"
  int64_t rows = 0, cols = 0;
  bool is_vector = false;
  uint32_t id = 0;     ///< of draws
  int64_t blocks = 0;  ///< of the model; 0: its own is the last

  [[nodiscard]] ParameterSpec spec() const {
    return {.name = name, .hf_name = "", .rows = rows, .cols = cols, .is_vector = is_vector};
  }
  /// Throws Error for what the recipe and the settings cannot do with it.
  [[nodiscard]] WeightStorage storage(const Recipe& recipe,
                                      const OptimizerSettings& settings) const {
    check_heads(recipe.settings(0).optimizer.kind, settings, spec());
    WeightStorage storage = storage_of(recipe, spec(), blocks, false);
    check_feedback(storage, settings);
    return storage;
  }
};

/// Whether BF16 holds every value that is stored by the cast.
[[nodiscard]] inline bool fits_bf16(const Operand& cast) {
  return (cast.is_unscaled() && cast.element == &bf16_format()) || cast.is_exact_in_bf16();
}

}  // namespace ng::python
