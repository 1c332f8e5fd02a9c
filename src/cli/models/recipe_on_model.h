// A recipe on a model: how each GEMM of its linear layers runs here, how fast, and what training it
// takes of memory.
#pragma once

#include <string>
#include <vector>

#include "cli/models/open_model.h"
#include "recipe/phase_choice.h"

namespace ng::cli {

/// Prints for every phase, or the one that `phase` says as --phase does, the layers by shape and
/// numbers: how they run, seconds of forward and backward in the recipe and in FP32, measured now;
/// and the memory, as the event `memory` of metrics.jsonl has it, planned for a batch of one
/// micro-batch, AdamW's defaults, without recomputation. As JSON, or as lines and tables.
/// `named`: the recipe, a name or a file.
void print_recipe_on_model(const std::string& named, const std::string& phase, StepFlags step,
                           const MachineFlags& machine, bool json);

/// The phase that `word` chooses, as --phase does, or all of them. `model`: where a run is asked
/// how many steps it has.
[[nodiscard]] std::vector<MeasuredPhase> phases_of(const Recipe& recipe, const std::string& word,
                                                   const std::string& model);

}  // namespace ng::cli
