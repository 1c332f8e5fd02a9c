// How updates of a parameter go, in words and numbers, for whoever computes them otherwise: what
// narrowgauge.torch.optimizer does in torch operations.
#include <nanobind/stl/pair.h>

#include <memory>

#include "base/json.h"
#include "bind.h"
#include "cast_form.h"
#include "model/weights.h"
#include "optim/muon.h"
#include "optim/row_blocks.h"
#include "optimizer_settings.h"
#include "recipe/update_words.h"
#include "state_name.h"
#include "updated_parameter.h"

namespace ng::python {
namespace {

/// What ParameterUpdate has memory for and computes.
class UpdateForm {
 public:
  UpdateForm(const Recipe& recipe, const UpdatedParameter& which, const OptimizerSettings& settings)
      : spec_(which.spec()),
        storage_(which.storage(recipe, settings)),
        kind_(recipe.settings(0).optimizer),
        settings_(settings) {}

  /// Of the rule, of how it is rounded into the weight, and of each tensor that persists, in the
  /// order of a checkpoint: what it is, its cast, its shape, what its draws are for, and what its
  /// rows are called.
  [[nodiscard]] nb::dict form() const {
    const OptimizerRule rule = optimizer(settings_)->rule_of(spec_);
    const bool is_printed = storage_.search == StepSearch::printed;
    return dict_of(Json{{"rule", name_of(rule)},
                        {"update", kUpdateRules.name_of(storage_.update)},
                        {"momentum_feedback", storage_.momentum_feedback},
                        {"rtol", static_cast<float>(storage_.rtol)},
                        {"max_iters", storage_.max_iters},
                        {"search", is_printed ? "printed" : "norms"},
                        {"sections", sections(rule)},
                        {"muon",
                         {{"momentum", kMuon.momentum},
                          {"steps", kMuon.steps},
                          {"a", kMuon.a},
                          {"b", kMuon.b},
                          {"c", kMuon.c},
                          {"update_size", kMuon.update_size}}},
                        {"fits_bf16", fits_bf16(weight_parts(spec_, storage_).value.cast)},
                        {"tensors", tensors()}});
  }

  /// Of a step.
  [[nodiscard]] nb::dict numbers(float lr, int64_t step, const nb::dict& settings) const {
    OptimizerSettings now = settings_;
    const auto number = [&](const char* key) { return nb::cast<float>(settings[key]); };
    now.beta1 = number("beta1"), now.beta2 = number("beta2"), now.eps = number("eps");
    now.weight_decay = number("weight_decay");
    const OptimizerNumbers n = optimizer(now)->numbers_of(spec_, lr, step);
    return dict_of(Json{{"lr", n.lr},
                        {"beta1", n.beta1},
                        {"beta2", n.beta2},
                        {"eps", n.eps},
                        {"weight_decay", n.weight_decay},
                        {"correction1", n.correction1},
                        {"correction2", n.correction2}});
  }

 private:
  [[nodiscard]] std::unique_ptr<Optimizer> optimizer(const OptimizerSettings& settings) const {
    return make_optimizer(kind_, settings);
  }

  static const char* name_of(OptimizerRule rule) {
    switch (rule) {
      case OptimizerRule::adam_mini:
        return "adam_mini";
      case OptimizerRule::sgd:
        return "sgd";
      case OptimizerRule::muon:
        return "muon";
      case OptimizerRule::adamw:
      case OptimizerRule::direction:
        break;
    }
    return "adamw";
  }

  /// Rows and rows of a block, where rows belong together.
  [[nodiscard]] Json sections(OptimizerRule rule) const {
    Json found = Json::array();
    if (rule != OptimizerRule::adam_mini && rule != OptimizerRule::muon) return found;
    for (const RowBlocks::Section& section :
         row_blocks(spec_, settings_.heads, settings_.kv_heads).sections)
      if (section.rows > 0) found.push_back(Json::array({section.rows, section.block_rows}));
    return found;
  }

  [[nodiscard]] Json tensors() const {
    Json found = Json::array();
    const auto add = [&](const char* part, const StoredSpec& stored, Purpose purpose) {
      Json rows = Json::array();
      for (const PersistentSpec& row : stored.rows()) rows.push_back(state_name(row));
      found.push_back(Json{{"part", part},
                           {"cast", cast_form(stored.cast)},
                           {"rows", stored.spec.rows},
                           {"cols", stored.spec.cols},
                           {"is_positive", stored.cast.is_positive},
                           {"purpose", static_cast<int>(purpose)},
                           {"states", rows}});
    };
    const WeightParts weight = weight_parts(spec_, storage_);
    add("value", weight.value, Purpose::weight_update);
    if (weight.master) add("master", *weight.master, Purpose::weight_update);
    if (weight.carry) add("carry", *weight.carry, Purpose::weight_update);
    constexpr std::pair<const char*, Purpose> kMoments[] = {{"moment1", Purpose::moment1},
                                                            {"moment2", Purpose::moment2}};
    const std::vector<StoredSpec> moments = optimizer(settings_)->states(spec_);
    for (size_t i = 0; i < moments.size(); ++i)
      add(kMoments[i].first, moments[i], kMoments[i].second);
    return found;
  }

  ParameterSpec spec_;
  WeightStorage storage_;
  OptimizerRecipe kind_;
  OptimizerSettings settings_;
};

}  // namespace

void add_update_forms(nb::module_& module) {
  nb::class_<UpdateForm>(module, "UpdateForm")
      .def(
          "__init__",
          [](UpdateForm* self, const Recipe& recipe, const std::string& name,
             std::pair<int64_t, int64_t> shape, bool is_vector, int64_t blocks,
             const nb::dict& settings) {
            const UpdatedParameter which{name, shape.first, shape.second, is_vector, 0, blocks};
            as_call([&] { new (self) UpdateForm(recipe, which, optimizer_settings_of(settings)); });
          },
          "recipe"_a, "name"_a, "shape"_a, "is_vector"_a, "blocks"_a, "settings"_a)
      .def("form", &UpdateForm::form)
      .def("numbers", &UpdateForm::numbers, "lr"_a, "step"_a, "settings"_a);
}

}  // namespace ng::python
