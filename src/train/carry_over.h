// A run that goes on in another recipe's numbers: the values that a checkpoint's tensors stand for,
// stored as that recipe stores them.
#pragma once

#include <cstdint>
#include <string>

#include "base/json_fwd.h"
#include "model/model.h"
#include "optim/optimizer.h"
#include "train/state_files.h"

namespace ng {

/// What became of a run's state.
struct CarriedState {
  uint64_t weights = 0;          ///< values of them
  uint64_t changed_weights = 0;  ///< that are other numbers now; what lies in carries left out
  uint64_t moments = 0, changed_moments = 0;
  /// Of operands and gradients whose scale has a history: those that go on, and begin anew.
  uint64_t scales = 0, new_scales = 0;
};
[[nodiscard]] Json carried_json(const CarriedState& carried);
/// "3 of 1,000 weights and 0 of 2,000 values of moments are other numbers now, ..."
[[nodiscard]] std::string carried_text(const CarriedState& carried);

/// The keys, with both values, whose states in one recipe mean nothing to the other; empty where
/// there are none.
[[nodiscard]] std::string keys_without_meaning(const Recipe& before, const Recipe& now);

/// A recipe, in the phase of the last step that was done in it.
struct RecipeInPhase {
  const Recipe& recipe;
  int phase = 0;
};

/// Fills all that is saved from a checkpoint of another recipe, of which it asks
/// keys_without_meaning() first. What both store alike stays bit for bit; other values are rounded
/// to nearest even. Called by all ranks; the model is in the phase of `now`.
CarriedState carry_state(const StateFiles& files, const RecipeInPhase& before, Run& run,
                         Model& model, const RecipeInPhase& now, const OptimizerSettings& settings);

}  // namespace ng
