// What the operands of a recipe's GEMMs take: equal bits are an equal cost.
#pragma once

#include <array>

#include "model/config.h"
#include "recipe/recipe.h"

namespace ng::search {

/// The two operands of a GEMM.
struct GemmBits {
  double left = 0, right = 0;
  friend bool operator==(const GemmBits&, const GemmBits&) = default;
};

/// Of fprop, dgrad and wgrad.
using OperandBits = std::array<GemmBits, 3>;

/// Bits of a value with its share of scales (bits_per_value), in the recipe's first phase: means
/// over the values of the linear layers of a model's blocks.
[[nodiscard]] OperandBits operand_bits(const ModelConfig& model, const Recipe& recipe);

}  // namespace ng::search
