#include "model/builder.h"

#include <algorithm>

#include "model/tensor_parallel.h"
#include "nn/attention_block.h"
#include "nn/mlp_block.h"
#include "recipe/layer_names.h"

namespace ng {

using layers::in_block;

Parameter* Builder::find(const std::string& name) const {
  const int64_t index = sources_.tensors.find(name);
  const bool is_parameter = index >= 0 && index < std::ssize(sources_.parameters);
  return is_parameter ? &sources_.parameters[static_cast<size_t>(index)] : nullptr;
}

Parameter& Builder::parameter(const std::string& name) const {
  Parameter* found = find(name);
  NG_CHECK(found != nullptr, name);
  return *found;
}

namespace {

// Rule (g): an operand in the format that the weight is stored in is cast as the weight was; where
// blocks lie the same way it takes what is stored (nn/linear.cc). [recipes.md §7]
void take_stored_codes(Operand& operand, const Operand& storage) {
  if (operand.is_unscaled() || storage.is_unscaled()) return;
  if (*operand.element != *storage.element || !(operand.block == storage.block)) return;
  if (operand.subnormals == Subnormals::flush) return;  // which what is stored has kept
  operand = storage.rounded_by(Rounding::nearest);
}

}  // namespace

Parameter* Builder::find_beside(const std::string& name) const {
  for (Parameter& parameter : sources_.beside)
    if (parameter.spec.name == name) return &parameter;
  return nullptr;
}

std::optional<LayerNoise> Builder::noise_of(const LayerPlace& place) const {
  const WeightNoise noise = sources_.recipe.layer(place, 0).weight_noise;
  if (noise.kind == NoiseKind::none) return {};
  return LayerNoise(noise, find_beside(layers::bits_of(place.name)),
                    find_beside(layers::clip_of(place.name)));
}

namespace {

LinearRecipe plain_gemms(Compute compute) {
  LinearRecipe recipe;
  for (GemmRecipe* gemm : {&recipe.fprop, &recipe.dgrad, &recipe.wgrad})
    gemm->left = gemm->right = operand_of(compute == Compute::bf16 ? "bf16" : "fp32");
  return recipe;
}

}  // namespace

std::unique_ptr<Adapter> Builder::adapter_of(const Linear& layer) const {
  std::vector<LinearRecipe> phases;
  for (size_t phase = 0; phase < sources_.recipe.phase_starts().size(); ++phase)
    phases.push_back(plain_gemms(sources_.recipe.compute(static_cast<int>(phase))));
  const auto half = [&](const std::string& name) {
    return Linear(
        run(),
        {.name = name, .output = layer.output(), .weight = find_beside(name), .phases = phases});
  };
  if (find_beside(layers::lora_a_of(layer.name())) == nullptr) return nullptr;
  return std::make_unique<Adapter>(half(layers::lora_a_of(layer.name())),
                                   half(layers::lora_b_of(layer.name())),
                                   config().lora.scale_of(layer.name()));
}

const Linear* Builder::trained_layer(const std::string& name) const {
  if (sources_.trained.empty()) return nullptr;
  const auto found = std::ranges::find(sources_.trained, name, &Linear::name);
  NG_CHECK(found != sources_.trained.end(), name);
  return *found;
}

Linear Builder::make_linear(const std::string& name, int64_t block, Parameter& weight) const {
  const LayerPlace place{.name = name, .block = block, .depth = config().layers};
  std::vector<LinearRecipe> phases = sources_.recipe.linears(place);
  for (LinearRecipe& phase : phases)
    for (GemmRecipe* gemm : {&phase.fprop, &phase.dgrad})
      take_stored_codes(gemm->right, weight.weight.value.cast);
  return {run(),
          {.name = name,
           .output = activation(name),
           .weight = &weight,
           .bias = find(layers::bias_of(name)),
           .phases = std::move(phases),
           .noise = noise_of(place),
           .trained = trained_layer(name),
           // The head, which DPO passes through twice, makes dgrad's right behind fprop's.
           .keeps_operands = sources_.keeps_operands && block >= 0}};
}

Linear Builder::linear(const std::string& name, int64_t block) const {
  Linear made = make_linear(name, block, parameter(layers::weight_of(name)));
  made.adapt(adapter_of(made));
  return made;
}

Linear Builder::head() const {
  const auto table = config().tie_embeddings ? layers::kEmbed : layers::kHead;
  return make_linear(std::string(layers::kHead), -1, parameter(layers::weight_of(table)));
}

NormLayer Builder::norm(const std::string& name) const {
  return NormLayer({.kind = parts_of(config().architecture).norm,
                    .gain = &parameter(layers::weight_of(name)),
                    .bias = find(layers::bias_of(name)),
                    .output = activation(name),
                    .eps = config().norm_eps});
}

std::vector<Linear> Builder::linears(int64_t block, std::span<const std::string_view> parts) const {
  std::vector<Linear> made;
  for (const std::string_view part : parts) made.push_back(linear(in_block(block, part), block));
  return made;
}

std::unique_ptr<Layer> Builder::attention_block(int64_t index, View rope_table) const {
  NormLayer before = norm(in_block(index, layers::kNorm1));
  std::vector<Linear> qkv = linears(index, parts_of(config().architecture).projections);
  std::optional<AttentionBlock::HeadNorms> head_norms;
  if (parts_of(config().architecture).head_norms)
    head_norms = {norm(in_block(index, layers::kQNorm)), norm(in_block(index, layers::kKNorm))};
  const uint32_t attention = activation(in_block(index, layers::kAttn));
  Linear out = linear(in_block(index, layers::kAttnOut), index);
  const TokenWires wires = token_wires(sources_.recipe, out);
  const int ranks = run().tensor_group().ranks();
  return std::make_unique<AttentionBlock>(
      AttentionBlock::Parts{.norm = before,
                            .projections = std::move(qkv),
                            .out = std::move(out),
                            .name = in_block(index, layers::kAttn),
                            .block = index,
                            .heads = static_cast<int>(config().heads) / ranks,
                            .kv_heads = static_cast<int>(config().kv_heads) / ranks,
                            .head_dim = static_cast<int>(config().head_dim),
                            .window = config().windows.of(index),
                            .head_norms = head_norms,
                            .rope_table = rope_table,
                            .attention = attention,
                            .wires = wires,
                            .numbers = sources_.recipe.settings(0).attention,
                            .saved = sources_.recipe.settings(0).saved});
}

std::unique_ptr<Layer> Builder::mlp_block(int64_t index) const {
  NormLayer before = norm(in_block(index, layers::kNorm2));
  std::vector<Linear> inputs = linears(index, parts_of(config().architecture).mlp_inputs);
  const uint32_t act = activation(in_block(index, layers::kMlpAct));
  Linear down = linear(in_block(index, layers::kDown), index);
  const TokenWires wires = token_wires(sources_.recipe, down);
  return std::make_unique<MlpBlock>(MlpBlock::Parts{.norm = before,
                                                    .inputs = std::move(inputs),
                                                    .down = std::move(down),
                                                    .name = in_block(index, layers::kMlp),
                                                    .gelu = config().gelu,
                                                    .activation = act,
                                                    .wires = wires,
                                                    .saved = sources_.recipe.settings(0).saved});
}

std::unique_ptr<Layer> Builder::block(int64_t index, View rope_table) const {
  auto chain = std::make_unique<Chain>();
  chain->add(attention_block(index, rope_table));
  chain->add(mlp_block(index));
  return chain;
}

}  // namespace ng
