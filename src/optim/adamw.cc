// AdamW: m = β1·m + (1-β1)·g; v = β2·v + (1-β2)·g²; w = w·(1 - lr·λ) - lr·m̂/(√v̂ + ε), decay on
// tensors of two dimensions. [Loshchilov and Hutter 2019; recipes.md §6]
#include "optim/optimizer.h"

namespace ng {
namespace {

class AdamW final : public Optimizer {
 public:
  using Optimizer::Optimizer;

  [[nodiscard]] std::vector<StoredSpec> states(const ParameterSpec& spec) const override {
    return {state(spec, "moment1", recipe_.moment1), second_moment(spec)};
  }

 private:
  [[nodiscard]] std::optional<OptimizerRule> rule() const override { return OptimizerRule::adamw; }
};

}  // namespace

std::unique_ptr<Optimizer> make_adamw(const OptimizerRecipe& recipe,
                                      const OptimizerSettings& settings) {
  return std::make_unique<AdamW>(recipe, settings);
}

}  // namespace ng
