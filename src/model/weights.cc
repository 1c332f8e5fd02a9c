#include "model/weights.h"

#include "recipe/layer_names.h"
#include "run/transfer.h"

namespace ng {
namespace {

// FP16 has five bits of exponent: its scale follows the values.
Operand master_cast(WeightStorage::Master master) {
  if (master == WeightStorage::Master::fp32) return operand_of("fp32");
  Operand cast = operand_of("fp16");
  cast.scale = ScaleKind::pow2;
  return cast;
}

const ElementFormat* carry_element(const WeightStorage& storage) {
  if (storage.update == UpdateRule::kahan) return &bf16_format();
  if (storage.update != UpdateRule::residual) return nullptr;
  return &element_format(storage.residual_bits == 8 ? "int8" : "int4");
}

}  // namespace

WeightStorage weight_storage(const Recipe& recipe, const ParameterSpec& spec, int64_t depth) {
  if (spec.is_vector) return LayerRecipe().weights;
  const std::string_view layer = layers::layer_of(spec.name);
  return recipe.layer({.name = layer, .block = layers::place_of(layer).block, .depth = depth}, 0)
      .weights;
}

UpdatedWeight claim_value(Run& run, const ParameterSpec& spec, const WeightStorage& storage) {
  UpdatedWeight weight{.rule = storage.update,
                       .momentum_feedback = storage.momentum_feedback,
                       .rtol = static_cast<float>(storage.rtol),
                       .max_iters = storage.max_iters};
  Operand value = storage.storage;
  if (!value.is_fp32()) value.overflow = Overflow::saturate;  // [errata-2, 21, 23]
  Parameter whole;
  whole.spec = spec;
  weight.value = run.stored(whole.state("weight", MemoryKind::weights), value);
  return weight;
}

void claim_owned(Run& run, Parameter& parameter, const WeightStorage& storage) {
  UpdatedWeight& weight = parameter.weight;
  if (storage.master != WeightStorage::Master::none)
    weight.master =
        run.stored(parameter.state("master", MemoryKind::master), master_cast(storage.master));
  if (weight.master || storage.storage.is_fp32()) return;
  if (const ElementFormat* element = carry_element(storage)) {
    PersistentSpec carry = parameter.state("carry", MemoryKind::weights);
    carry.element = element;
    weight.carry = run.persistent(carry);
  }
}

UpdatedWeight claim_weight(Run& run, const ParameterSpec& spec, const WeightStorage& storage) {
  Parameter parameter;
  parameter.spec = spec;
  parameter.weight = claim_value(run, spec, storage);
  claim_owned(run, parameter, storage);
  return parameter.weight;
}

void put_weight(Run& run, const UpdatedWeight& weight, const ConstView& values) {
  const Rounding nearest = Rounding::nearest;
  if (weight.master) run.execute(Store{weight.master.rounded_by(nearest), values, {}});
  const ConstView source = weight.master ? ConstView(weight.master.view) : values;
  run.execute(Store{weight.value.rounded_by(nearest), source, {}});
}

void put_carry(Run& run, const Parameter& parameter, const View& values) {
  const UpdatedWeight& weight = parameter.weight;
  if (weight.carry.rows == 0) return;
  const TemporaryTensor rounded(run.backend(), values.rows, values.cols);
  run.execute(Store{stored_plainly(rounded.view()), weight.value.view, {}});
  run.execute(Combine{.y = values, .x = rounded.view(), .a = -1, .b = 1});
  // An update by that difference rounds to the same value, and draws as no step of training does.
  run.execute(
      Update{.optimizer = OptimizerRule::direction,
             .weight = weight,
             .grad = values,
             .numbers = {.lr = 1},
             .key = {.seed = run.seed(),
                     .tensor = parameter.id,
                     .step = UINT32_MAX,
                     .first_group = first_group_of(parameter.first_row, parameter.spec.cols)}});
}

}  // namespace ng
