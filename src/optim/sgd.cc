// Stochastic gradient descent with momentum: B = μB + g; w = w·(1 - lr·λ) - lr·B, μ the run's β1,
// decay as AdamW's. [errata-2, 18]
#include "optim/optimizer.h"

namespace ng {
namespace {

class Sgd final : public Optimizer {
 public:
  Sgd(const OptimizerRecipe& recipe, const OptimizerSettings& settings)
      : recipe_(recipe), settings_(settings) {}

  void claim(Run& run, Parameter& parameter) const override {
    parameter.moment1 = claim_state(run, parameter, "momentum", recipe_.moment1);
  }
  void update(Run& run, Parameter& parameter, const OptimizerStep& step) const override {
    update_by(run, parameter, OptimizerRule::sgd, numbers_of(settings_, parameter, step), step);
  }

 private:
  OptimizerRecipe recipe_;
  OptimizerSettings settings_;
};

}  // namespace

std::unique_ptr<Optimizer> make_sgd(const OptimizerRecipe& recipe,
                                    const OptimizerSettings& settings) {
  return std::make_unique<Sgd>(recipe, settings);
}

}  // namespace ng
