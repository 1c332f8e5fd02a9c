#include "model/weights.h"

#include <cstddef>
#include <span>
#include <vector>

#include "format/codec.h"
#include "recipe/layer_names.h"
#include "recipe/matches.h"
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

bool is_linear_of_block(const ParameterSpec& spec) {
  return !spec.is_vector && !spec.is_adapter && layers::place_of(spec.name).block >= 0;
}

// The same numbers, and no more.
WeightStorage frozen(const WeightStorage& storage) {
  return {.storage = storage.storage, .is_frozen = true};
}

void put(Run& run, const Stored& to, const ConstView& values, std::optional<float> amax) {
  Store store{to.rounded_by(Rounding::nearest), values, {}};
  if (!amax || to.cast.is_unscaled()) return run.execute(store);
  const TemporaryTensor of_whole(run.backend(), 1, 1);
  float* const at = of_whole.view().as<float>().data;
  run.upload(at, std::span<const float>(&*amax, 1));
  store.amax = at;
  run.execute(store);
}

// A largest value as a master holds it, which has been stored.
float rounded_by(Run& run, const Stored& master, float amax) {
  if (master.cast.is_fp32()) return amax;
  NG_CHECK(master.cast.block.kind == Block::Kind::tensor);
  const float scale = run.read(reinterpret_cast<const float*>(master.view.scales.data));
  const ElementCodec codec(*master.cast.element);
  return codec.decode(codec.encode(amax * (1.0f / scale))) * scale;
}

bool is_narrow_wire(const Operand& cast) { return !cast.is_unscaled() || cast.element->bits < 16; }

bool is_bf16_wire(const Operand& cast) {
  return cast.is_unscaled() && cast.element == &bf16_format();
}

bool computes_in_bf16(const Recipe& recipe) {
  const auto phases = static_cast<int>(recipe.phase_starts().size());
  for (int phase = 0; phase < phases; ++phase)
    if (recipe.compute(phase) != Compute::bf16) return false;
  return true;
}

bool is_learned_by_noise(const ParameterSpec& spec) {
  const std::string_view layer = layers::layer_of(spec.name);
  return spec.name == layers::bits_of(layer) || spec.name == layers::clip_of(layer);
}

}  // namespace

LayerPlace layer_place(const ParameterSpec& spec, int64_t depth) {
  const std::string_view layer = layers::layer_of(spec.name);
  return {.name = layer, .block = layers::place_of(layer).block, .depth = depth};
}

ModelLayers layers_of(const ModelConfig& config) {
  ModelLayers all{.names = {}, .depth = config.layers};
  for (const ParameterSpec& spec : parameter_table(config))
    if (!spec.is_vector) all.names.emplace_back(layers::layer_of(spec.name));
  if (config.tie_embeddings) all.names.emplace_back(layers::kHead);
  return all;
}

ModelConfig example_model() {
  ModelConfig config;
  config.architecture = Architecture::llama;
  config.layers = 12;
  return config;
}

void require_known_patterns(const Recipe& recipe) {
  const ModelConfig example = example_model();
  require_known_patterns(recipe, layers_of(example),
                         fmt::format("a Llama of {} blocks", example.layers));
}

WeightStorage weight_storage(const Recipe& recipe, const ParameterSpec& spec, int64_t depth) {
  const bool is_plain = spec.is_vector || spec.is_adapter;
  const WeightStorage storage =
      is_plain ? LayerRecipe().weights : recipe.layer(layer_place(spec, depth), 0).weights;
  return spec.is_frozen || recipe.is_frozen() ? frozen(storage) : storage;
}

KeptWeight kept_weight(const Recipe& recipe, const ParameterSpec& spec, int64_t depth,
                       WeightGather gather) {
  KeptWeight kept = weight_storage(recipe, spec, depth);
  const Operand wire = weight_wire(recipe, spec, depth);
  const bool is_sent_as_stored = gather == WeightGather::as_stored || kept.storage.is_frozen;
  if (is_sent_as_stored || !kept.storage.storage.is_fp32() || wire.is_fp32()) return kept;
  kept.storage.storage = wire;
  kept.storage.master = WeightStorage::Master::fp32;
  kept.is_copied = true;
  return kept;
}

WeightParts weight_parts(const ParameterSpec& spec, const KeptWeight& kept) {
  const WeightStorage& storage = kept.storage;
  const auto part = [&](std::string_view what, MemoryKind kind, const Operand& cast) {
    return StoredSpec{{.name = fmt::format("{}.{}", what, spec.name),
                       .owner = spec.name,
                       .kind = kind,
                       .rows = spec.rows,
                       .cols = spec.cols,
                       .cut = spec.cut},
                      cast};
  };
  Operand value = storage.storage;
  if (!value.is_fp32()) value.overflow = Overflow::saturate;  // [errata-2, 21, 23]
  if (storage.is_frozen) {
    WeightParts frozen{.value = spec.is_frozen ? part("weight", MemoryKind::weights, value)
                                               : part("reference", MemoryKind::reference, value)};
    frozen.value.spec.is_saved = false;  // it is read again where a run goes on
    return frozen;
  }
  WeightParts parts{.value = part(kept.is_copied ? "copy" : "weight", MemoryKind::weights, value)};
  parts.value.spec.is_saved = !kept.is_copied;
  if (storage.master != WeightStorage::Master::none)
    parts.master =
        part(kept.is_copied ? "weight" : "master", MemoryKind::master, master_cast(storage.master));
  if (parts.master || storage.storage.is_fp32()) return parts;
  if (const ElementFormat* element = carry_element(storage)) {
    Operand carry;
    carry.element = element;
    parts.carry = part("carry", MemoryKind::weights, carry);
  }
  return parts;
}

Operand gradient_wire(const Recipe& recipe, const ParameterSpec& spec) {
  return is_linear_of_block(spec) ? recipe.settings(0).gradient.communicate : operand_of("fp32");
}

Operand weight_wire(const Recipe& recipe, const ParameterSpec& spec, int64_t depth) {
  const Operand stored = weight_storage(recipe, spec, depth).storage;
  if (!stored.is_fp32() || spec.is_adapter) return stored;
  const Operand& cast = recipe.settings(0).communication.weights;
  const bool stays = is_learned_by_noise(spec) || !computes_in_bf16(recipe);
  if (stays && (is_bf16_wire(cast) || !is_linear_of_block(spec))) return stored;
  return is_narrow_wire(cast) && !is_linear_of_block(spec) ? operand_of("bf16") : cast;
}

UpdatedWeight claim_value(Run& run, const ParameterSpec& spec, const KeptWeight& kept) {
  const WeightStorage& storage = kept.storage;
  UpdatedWeight weight{.rule = storage.update,
                       .momentum_feedback = storage.momentum_feedback,
                       .keeps_scale = !kept.is_copied,
                       .rtol = static_cast<float>(storage.rtol),
                       .max_iters = storage.max_iters,
                       .search = storage.search};
  weight.value = run.stored(weight_parts(spec, kept).value);
  return weight;
}

void claim_owned(Run& run, Parameter& parameter, const KeptWeight& kept) {
  const WeightParts parts = weight_parts(parameter.whole_spec(), kept);
  UpdatedWeight& weight = parameter.weight;
  if (parts.master) weight.master = run.stored(parameter.own(*parts.master));
  if (parts.carry) weight.carry = run.stored(parameter.own(*parts.carry)).view;
}

UpdatedWeight claim_weight(Run& run, const ParameterSpec& spec, const KeptWeight& kept) {
  Parameter parameter;
  parameter.spec = spec;
  parameter.weight = claim_value(run, spec, kept);
  claim_owned(run, parameter, kept);
  return parameter.weight;
}

void put_weight(Run& run, const UpdatedWeight& weight, const ConstView& values,
                std::optional<float> amax) {
  if (!weight.master) return put(run, weight.value, values, amax);
  put(run, weight.master, values, amax);
  if (amax) amax = rounded_by(run, weight.master, *amax);
  copy_master(run, weight, amax);
}

void copy_master(Run& run, const UpdatedWeight& weight, std::optional<float> amax) {
  put(run, weight.value, weight.master.view, amax);
}

float largest_of(Run& run, const ConstView& values) {
  const TemporaryTensor amax(run.backend(), 1, 1);
  float* const at = amax.view().as<float>().data;
  run.execute(FindAmax{.amax = at, .x = values});
  return run.read(at);
}

void put_carry(Run& run, const Parameter& parameter, const View& values) {
  const UpdatedWeight& weight = parameter.weight;
  if (weight.carry.rows == 0) return;
  const std::vector<std::byte> zeros(weight.carry.bytes());  // what earlier values lacked is gone
  run.upload(weight.carry.data, std::span<const std::byte>(zeros));
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
