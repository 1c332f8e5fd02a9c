// How a model's parameters persist, by its recipe. [recipes.md §5, §7; errata-2, 4]
#pragma once

#include <optional>

#include "model/config.h"
#include "nn/parameter.h"
#include "recipe/recipe.h"

namespace ng {

/// The layer of a parameter in a model of `depth` blocks, as a recipe is asked for it. The name
/// lies in the parameter's.
[[nodiscard]] LayerPlace layer_place(const ParameterSpec& spec, int64_t depth);

/// All layers of a model that a recipe is asked for, in the model's order.
[[nodiscard]] ModelLayers layers_of(const ModelConfig& config);

/// What a recipe is shown on where no model is named, a Llama of 12 blocks: overrides may tell
/// blocks apart.
[[nodiscard]] ModelConfig example_model();
/// Throws Error, saying what would match of the example, where a pattern means no layer of any
/// model.
void require_known_patterns(const Recipe& recipe);

/// What the recipe says of a parameter in a model of `depth` blocks: vectors and adapters are FP32,
/// and so is what lies outside of the blocks where the storage has scales, unless an override means
/// it. What is frozen has no more than its value.
[[nodiscard]] WeightStorage weight_storage(const Recipe& recipe, const ParameterSpec& spec,
                                           int64_t depth);

/// How weights come from their owners to all ranks.
enum class WeightGather : uint8_t {
  as_sent,    ///< as weight_wire says: what that narrows is a copy, its owner has the values
  as_stored,  ///< every bit of them
};

/// One rank has nothing to gather.
[[nodiscard]] constexpr WeightGather gather_among(int ranks, WeightGather gather) {
  return ranks > 1 ? gather : WeightGather::as_stored;
}

/// How a rank keeps a parameter.
struct KeptWeight {
  KeptWeight(const WeightStorage& as) : storage(as) {}  // NOLINT: as the recipe says
  WeightStorage storage;
  /// What all read is a copy, rounded as it is sent, of FP32 values that their owners keep as its
  /// master. A checkpoint has those alone, under the name of the values.
  bool is_copied = false;
};
[[nodiscard]] KeptWeight kept_weight(const Recipe& recipe, const ParameterSpec& spec, int64_t depth,
                                     WeightGather gather);

/// What persists of a parameter beside the optimizer's states; of a frozen one the value alone, in
/// no checkpoint; as `reference.<name>` where the whole model is frozen.
struct WeightParts {
  StoredSpec value;
  std::optional<StoredSpec> master{}, carry{};
};
[[nodiscard]] WeightParts weight_parts(const ParameterSpec& spec, const KeptWeight& kept);

/// As what a parameter's gradient is sent and kept when it is finished: weights of the blocks'
/// linear layers as the recipe says, what else there is in FP32. [errata-2, 4]
[[nodiscard]] Operand gradient_wire(const Recipe& recipe, const ParameterSpec& spec);

/// As what its owner sends an updated weight. What is stored narrower than FP32 is sent as it is
/// stored; FP32 as communication.weights says, which FP8 and formats with scales do for the weights
/// of the blocks' linear layers alone: what else there is goes as BF16 then. BF16 is for what BF16
/// is computed with: elsewhere, and for what noise learns, FP32 stays. [errata-2, 4, 38]
[[nodiscard]] Operand weight_wire(const Recipe& recipe, const ParameterSpec& spec, int64_t depth);

/// Registers value, master and carry.
[[nodiscard]] UpdatedWeight claim_weight(Run& run, const ParameterSpec& spec,
                                         const KeptWeight& kept);
/// Registers the value alone.
[[nodiscard]] UpdatedWeight claim_value(Run& run, const ParameterSpec& spec,
                                        const KeptWeight& kept);
/// Registers master and carry of a parameter, or part of one, whose value is there.
void claim_owned(Run& run, Parameter& parameter, const KeptWeight& kept);

/// Values in backend memory into a weight: the value is made of the master, where there is one.
/// `amax`: the largest magnitude of the whole tensor, of which these are a part.
void put_weight(Run& run, const UpdatedWeight& weight, const ConstView& values,
                std::optional<float> amax = {});
/// The value becomes its master, rounded to nearest even. `amax`: of the whole master.
void copy_master(Run& run, const UpdatedWeight& weight, std::optional<float> amax = {});
/// The largest magnitude of values in backend memory.
[[nodiscard]] float largest_of(Run& run, const ConstView& values);

/// What the value lacks of the values that it was made of goes into its carry, where it has one:
/// training begins where FP32 masters begin. `values` are used up.
void put_carry(Run& run, const Parameter& parameter, const View& values);

}  // namespace ng
