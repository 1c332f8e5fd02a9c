// A recipe on a model, as cards would compute it: no card has to be there.
#pragma once

#include <string>

#include "cli/models/open_model.h"

namespace ng::cli {

/// Prints for every phase, or the one that `phase` says as --phase does, the layers by shape and
/// numbers, and by which route each kind of card computes each GEMM. As JSON, or as tables.
/// `named`: the recipe, a name or a file.
void print_recipe_routes(const std::string& named, const std::string& phase, StepFlags step,
                         bool json);

}  // namespace ng::cli
