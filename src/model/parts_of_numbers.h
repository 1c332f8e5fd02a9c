// Whether a recipe's numbers can be made of parts of tensors, as ranks of a tensor group have them,
// with the codes and scales that they have in the whole.
#pragma once

#include <string_view>

#include "model/config.h"
#include "recipe/recipe.h"

namespace ng {

struct NumbersInParts {
  int64_t parts = 1;   ///< ranks of a tensor group, which divide the model
  int64_t tokens = 1;  ///< of a micro-batch
};

/// Throws Error{place, ...} naming the layer or key where ranks cannot divide the tokens, where a
/// block, a Hadamard transform or a row with one scale would have values of two ranks, or where
/// what is drawn, searched or learned belongs to more than a rank has.
void require_numbers_in_parts(const ModelConfig& config, const Recipe& recipe,
                              const NumbersInParts& of, std::string_view place);

}  // namespace ng
