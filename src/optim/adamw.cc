// AdamW: m = β1·m + (1-β1)·g; v = β2·v + (1-β2)·g²; w = w·(1 - lr·λ) - lr·m̂/(√v̂ + ε), decay on
// tensors of two dimensions. [Loshchilov and Hutter 2019; recipes.md §6]
#include "optim/optimizer.h"

namespace ng {
namespace {

class AdamW final : public Optimizer {
 public:
  using Optimizer::Optimizer;

  [[nodiscard]] std::vector<StoredSpec> states(const ParameterSpec& spec) const override {
    return {state(spec, "moment1", recipe_.moment1), state(spec, "moment2", recipe_.moment2)};
  }
  void check(Run& run, const Parameter& parameter, const OptimizerStep& step) const override {
    run.execute(CheckUpdate{.update = update_by(OptimizerRule::adamw, run, parameter, step),
                            .control = step.control,
                            .parameter = parameter.id});
  }
  void update(Run& run, Parameter& parameter, const OptimizerStep& step) const override {
    execute(run, parameter, update_by(OptimizerRule::adamw, run, parameter, step));
  }
};

}  // namespace

std::unique_ptr<Optimizer> make_adamw(const OptimizerRecipe& recipe,
                                      const OptimizerSettings& settings) {
  return std::make_unique<AdamW>(recipe, settings);
}

}  // namespace ng
