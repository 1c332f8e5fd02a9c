// Two steps of a small model, by which ranks find that their CPUs compute the same.
#pragma once

#include <string>
#include <string_view>

#include "comm/comm.h"
#include "model/config.h"
#include "recipe/recipe.h"

namespace ng {

/// Checksum of all that persists of a small model of that architecture after two steps in every
/// phase of the recipe: its GEMMs, noise, gradients as they are sent, updates and states.
[[nodiscard]] std::string bits_of_small_run(std::string_view backend, const ModelConfig& model,
                                            const Recipe& recipe);

/// Throws Error on all ranks where those of one are others. Called by all of them.
void require_equal_bits(Comm& comm, std::string_view backend, const ModelConfig& model,
                        const Recipe& recipe);

}  // namespace ng
