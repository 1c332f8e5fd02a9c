// Stochastic gradient descent with momentum: B = μB + g; w = w·(1 - lr·λ) - lr·B, μ the run's β1,
// decay as AdamW's. [errata-2, 18]
#include "optim/optimizer.h"

namespace ng {
namespace {

class Sgd final : public Optimizer {
 public:
  using Optimizer::Optimizer;

  [[nodiscard]] std::vector<StoredSpec> states(const ParameterSpec& spec) const override {
    return {state(spec, "momentum", recipe_.moment1)};
  }
  void check(Run& run, const Parameter& parameter, const OptimizerStep& step) const override {
    run.execute(CheckUpdate{.update = update_by(OptimizerRule::sgd, run, parameter, step),
                            .control = step.control,
                            .parameter = parameter.id});
  }
  void update(Run& run, Parameter& parameter, const OptimizerStep& step) const override {
    execute(run, parameter, update_by(OptimizerRule::sgd, run, parameter, step));
  }
};

}  // namespace

std::unique_ptr<Optimizer> make_sgd(const OptimizerRecipe& recipe,
                                    const OptimizerSettings& settings) {
  return std::make_unique<Sgd>(recipe, settings);
}

}  // namespace ng
