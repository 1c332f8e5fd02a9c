// How a model's parameters persist, by its recipe. [recipes.md §5, §7; errata-2, 4]
#pragma once

#include <optional>

#include "nn/parameter.h"
#include "recipe/recipe.h"

namespace ng {

/// What the recipe says of a parameter in a model of `depth` blocks: vectors are FP32, and so is
/// what lies outside of the blocks where the storage has scales, unless an override means it.
[[nodiscard]] WeightStorage weight_storage(const Recipe& recipe, const ParameterSpec& spec,
                                           int64_t depth);

/// What persists of a parameter beside the optimizer's states; of a frozen one the value alone, as
/// `reference.<name>`.
struct WeightParts {
  StoredSpec value;
  std::optional<StoredSpec> master{}, carry{};
};
[[nodiscard]] WeightParts weight_parts(const ParameterSpec& spec, const WeightStorage& storage);

/// As what a parameter's gradient is sent and kept when it is finished: weights of the blocks'
/// linear layers as the recipe says, what else there is in FP32. [errata-2, 4]
[[nodiscard]] Operand gradient_wire(const Recipe& recipe, const ParameterSpec& spec);

/// As what its owner sends an updated weight. What is stored narrower than FP32 is sent as it is
/// stored; FP32 as communication.weights says, which FP8 and formats with scales do for the weights
/// of the blocks' linear layers alone: what else there is goes as BF16 then. [errata-2, 4, 38]
[[nodiscard]] Operand weight_wire(const Recipe& recipe, const ParameterSpec& spec, int64_t depth);

/// Registers value, master and carry.
[[nodiscard]] UpdatedWeight claim_weight(Run& run, const ParameterSpec& spec,
                                         const WeightStorage& storage);
/// Registers the value alone.
[[nodiscard]] UpdatedWeight claim_value(Run& run, const ParameterSpec& spec,
                                        const WeightStorage& storage);
/// Registers master and carry of a parameter, or part of one, whose value is there.
void claim_owned(Run& run, Parameter& parameter, const WeightStorage& storage);

/// Values in backend memory into a weight: the value is made of the master, where there is one.
void put_weight(Run& run, const UpdatedWeight& weight, const ConstView& values);

/// What the value lacks of the values that it was made of goes into its carry, where it has one:
/// training begins where FP32 masters begin. `values` are used up.
void put_carry(Run& run, const Parameter& parameter, const View& values);

}  // namespace ng
