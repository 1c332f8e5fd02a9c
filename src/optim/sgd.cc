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

 private:
  [[nodiscard]] std::optional<OptimizerRule> rule() const override { return OptimizerRule::sgd; }
};

}  // namespace

std::unique_ptr<Optimizer> make_sgd(const OptimizerRecipe& recipe,
                                    const OptimizerSettings& settings) {
  return std::make_unique<Sgd>(recipe, settings);
}

}  // namespace ng
