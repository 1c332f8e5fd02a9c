#include "tools/update_setup.h"

#include <algorithm>

#include "base/error.h"
#include "model/weights.h"
#include "recipe/layer_names.h"
#include "tools/tensor_layer.h"

namespace ng {
namespace {

[[noreturn]] void refuse(const char* flag, std::string problem, std::string remedy) {
  throw Error({flag, "", std::move(problem), std::move(remedy)});
}

}  // namespace

ParameterSpec parameter_of(const std::string& layer, const UpdateInput& input) {
  ParameterSpec spec{.name = is_layer(layer) ? layers::weight_of(layer) : layer,
                     .hf_name = "",
                     .rows = input.rows(),
                     .cols = input.cols()};
  const std::string of(layers::layer_of(spec.name));
  const std::string what = spec.name.substr(of.size());
  if (!is_parameter(spec.name))
    refuse("--layer", fmt::format("unknown \"{}\"", layer),
           "a layer (blocks.0.mlp.up, blocks.3.attn.qkv, blocks.0.norm1, embed, pos, norm, head) "
           "or a parameter of one (blocks.0.mlp.up.bias)");
  spec.is_vector = what != ".weight" || is_norm_layer(of);
  if (spec.is_vector && what != ".b_i" && spec.rows != 1)
    input.refuse("weight", fmt::format("has shape ({}, {})", spec.rows, spec.cols),
                 fmt::format("(1, n), as {} is a vector", spec.name));
  return spec;
}

void check_heads(OptimizerRecipe::Kind kind, const OptimizerSettings& settings,
                 const ParameterSpec& spec) {
  const int64_t heads = settings.heads, kv_heads = settings.kv_heads;
  if (heads % kv_heads != 0)
    refuse("--kv-heads", fmt::format("{} beside {} heads", kv_heads, heads),
           "a number that divides --heads");
  using Kind = OptimizerRecipe::Kind;
  if (spec.is_vector || (kind != Kind::adam_mini && kind != Kind::muon)) return;
  const std::string_view part = layers::place_of(layers::layer_of(spec.name)).part;
  int64_t parts = 1;
  if (part == layers::kQ) parts = heads;
  if (part == layers::kK) parts = kv_heads;
  if (part == layers::kQkv) parts = heads + 2 * kv_heads;
  if (spec.rows % parts == 0) return;
  refuse("--heads",
         fmt::format("{} rows of {} among {} heads of q, {} of k and v", spec.rows, spec.name,
                     heads, kv_heads),
         "--heads and --kv-heads of the model");
}

WeightStorage storage_of(const Recipe& recipe, const ParameterSpec& spec, int64_t blocks,
                         bool has_direction) {
  const int64_t block = layers::place_of(spec.name).block;
  if (blocks > 0 && block >= blocks)
    refuse("--blocks", fmt::format("{} has no block {}", blocks, block),
           fmt::format("at least {}", block + 1));
  const WeightStorage storage = weight_storage(recipe, spec, blocks > 0 ? blocks : block + 1);
  if (has_direction && storage.momentum_feedback)
    throw Error({.place = recipe.place(),
                 .key = "weights.update",
                 .problem = "momentum_feedback beside a direction, which has no moment",
                 .remedy = "grad in the file, or another rule"});
  return storage;
}

void check_feedback(const WeightStorage& storage, const OptimizerSettings& settings) {
  if (storage.momentum_feedback && settings.beta1 == 0)
    refuse("--beta1", "0 beside momentum_feedback, which divides by it", "above 0");
}

UpdatePlan plan_of(UpdatePlan flags, uint32_t first_step, const UpdateInput& input) {
  UpdatePlan plan = std::move(flags);
  if (plan.steps == 0) plan.steps = std::max<int64_t>(input.gradients(), 1);
  if (!input.has_direction() && plan.steps > input.gradients())
    refuse("--steps", fmt::format("{} of {} gradients", plan.steps, input.gradients()),
           "no more than there are");
  if (plan.steps > (int64_t{1} << 32) - first_step)
    refuse("--step", fmt::format("{} and {} updates from there", first_step, plan.steps),
           "steps below 2^32");
  if (plan.show.empty()) plan.show = {plan.steps};
  std::sort(plan.show.begin(), plan.show.end());
  plan.show.erase(std::unique(plan.show.begin(), plan.show.end()), plan.show.end());
  const int64_t beyond = plan.show.front() < 0 ? plan.show.front() : plan.show.back();
  if (beyond < 0 || beyond > plan.steps)
    refuse("--show", std::to_string(beyond), fmt::format("updates from 0 to {}", plan.steps));
  return plan;
}

}  // namespace ng
