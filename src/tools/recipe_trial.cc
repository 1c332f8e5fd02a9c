#include "tools/recipe_trial.h"

#include <algorithm>
#include <limits>

#include "model/weights.h"
#include "nn/operand_role.h"
#include "recipe/layer_names.h"

namespace ng {
namespace {

/// A cast that is to be tried.
struct PlannedUse {
  std::string layer, operand;
  Operand cast;
  Contract along = Contract::cols;  ///< of the matrix as the layer has it
  int hadamard = 0;
};

bool is_linear(std::string_view layer) {
  const layers::Place place = layers::place_of(layer);
  const auto& linears = layers::kLinearsOfBlocks;
  return layer == layers::kHead || (place.block >= 0 && std::find(linears.begin(), linears.end(),
                                                                  place.part) != linears.end());
}

/// The matrices of a layer that capture writes beside its weight, and what is made of them.
std::vector<OperandRole> roles_of(std::string_view matrix) {
  if (matrix == ".weight") return {OperandRole::fprop_weight, OperandRole::dgrad_weight};
  if (matrix == ".x") return {OperandRole::fprop_input, OperandRole::wgrad_input};
  if (matrix == ".dy") return {OperandRole::dgrad_grad, OperandRole::wgrad_grad};
  return {};
}

class Planner {
 public:
  Planner(const Recipe& recipe, int phase, int64_t depth)
      : recipe_(recipe), phase_(phase), depth_(depth) {}

  void add_operands(const std::string& layer, std::string_view matrix) {
    if (!is_linear(layer)) return;
    const int64_t block = layers::place_of(layer).block;
    const LinearRecipe linear = recipe_.linear(
        {.name = layer, .block = block, .depth = std::max(depth_, block + 1)}, phase_);
    for (const OperandRole role : roles_of(matrix)) {
      const OperandSpec form = operand_form(linear, role);
      Operand cast = form.cast;
      scale_by_itself(cast);
      const bool has_regions = cast.tensor_block != Block();
      cast.tensor_block = {};
      const bool has_list = cast.other != nullptr;
      cast.other = nullptr;
      const bool has_mean = !is_weight(role) && gemm_of(linear, role).center != Center::none;
      plan_.push_back({.layer = layer,
                       .operand = std::string(name_of(role)) + (has_mean ? " with its mean" : "") +
                                  (has_regions ? " with one second scale" : "") +
                                  (has_list ? " in its first element" : ""),
                       .cast = cast,
                       .along = form.contract,
                       .hadamard = form.hadamard.size});
    }
  }
  void add_storage(const ParameterSpec& spec) {
    const int64_t block = layers::place_of(spec.name).block;
    add_plain(spec, "stored", weight_storage(recipe_, spec, std::max(depth_, block + 1)).storage);
  }
  void add_wire(const ParameterSpec& spec) {
    add_plain(spec, "communicated", gradient_wire(recipe_, spec));
  }
  [[nodiscard]] const std::vector<PlannedUse>& plan() const { return plan_; }

 private:
  void add_plain(const ParameterSpec& spec, const char* operand, const Operand& cast) {
    if (cast.is_fp32()) return;
    plan_.push_back(
        {.layer = std::string(layers::layer_of(spec.name)), .operand = operand, .cast = cast});
  }

  const Recipe& recipe_;
  int phase_;
  int64_t depth_;
  std::vector<PlannedUse> plan_;
};

ParameterSpec spec_of(const io::SafetensorsEntry& entry, const std::string& name, bool is_vector) {
  const bool has_rows = entry.shape.size() == 2;
  return {.name = name,
          .hf_name = "",
          .rows = has_rows ? entry.shape[0] : 1,
          .cols = has_rows ? entry.shape[1] : entry.elements(),
          .is_vector = is_vector || !has_rows};
}

std::vector<PlannedUse> plan_of(const io::SafetensorsEntry& entry, const NamedParameter& parameter,
                                const Recipe& recipe, int phase) {
  Planner planner(recipe, phase, parameter.blocks);
  const std::string layer(layers::layer_of(parameter.name));
  if (entry.shape.size() == 2 && !parameter.is_vector) {
    planner.add_operands(layer, ".weight");
    if (parameter.is_head) planner.add_operands(std::string(layers::kHead), ".weight");
  }
  planner.add_storage(spec_of(entry, parameter.name, parameter.is_vector));
  return planner.plan();
}

/// Of "blocks.0.mlp.up.x" and its like.
std::vector<PlannedUse> plan_of_captured(const io::SafetensorsEntry& entry, ParameterNames& names,
                                         const Recipe& recipe, int phase) {
  const std::string layer(layers::layer_of(entry.name));
  const std::string_view matrix = std::string_view(entry.name).substr(layer.size());
  if (!is_linear(layer) || entry.shape.size() != 2) return {};
  io::SafetensorsEntry weight = entry;
  weight.name = layers::weight_of(layer);
  Planner planner(recipe, phase, names.of(weight).blocks);
  planner.add_operands(layer, matrix);
  if (matrix == ".dw") planner.add_wire(spec_of(entry, weight.name, false));
  return planner.plan();
}

FormatTrial exact_trial(const Operand& cast) {
  FormatTrial trial;
  trial.cast = cast;
  trial.bits = bits_per_value(cast);
  trial.errors.sqnr_db = std::numeric_limits<double>::infinity();
  return trial;
}

}  // namespace

std::vector<RecipeUse> try_recipe(const io::SafetensorsEntry& entry, ParameterNames& names,
                                  const Recipe& recipe, int phase, Threads threads,
                                  const TensorProgress& progress) {
  const NamedParameter parameter = names.of(entry);
  const std::vector<PlannedUse> plan = parameter.name.empty()
                                           ? plan_of_captured(entry, names, recipe, phase)
                                           : plan_of(entry, parameter, recipe, phase);
  std::vector<RecipeUse> uses;
  for (const PlannedUse& planned : plan) {
    const bool lies_along_rows = (planned.along == Contract::rows) != parameter.is_turned;
    const bool is_exact = planned.cast.is_fp32();
    const TrialJob job{.name = describe(planned.cast),
                       .cast = planned.cast,
                       .axis = lies_along_rows ? 0 : -1,
                       .all_rules = false};
    const auto part = static_cast<double>(uses.size());
    uses.push_back({.layer = planned.layer,
                    .operand = planned.operand,
                    .trial = is_exact ? exact_trial(planned.cast)
                                      : try_format(entry, job, threads,
                                                   [&](double share) {
                                                     progress((part + share) /
                                                              static_cast<double>(plan.size()));
                                                   })
                                            .front(),
                    .hadamard = planned.hadamard});
  }
  return uses;
}

}  // namespace ng
