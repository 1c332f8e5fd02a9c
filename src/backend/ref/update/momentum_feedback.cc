// momentum_feedback: x = w - lr·m̂/(√v̂ + ε) rounds to w', and the error goes into m, so that
// Adam takes it back over the next steps:
//   e = x - w';  η = lr/(c1·(√v̂ + ε));  m <- m - (e·(1 - β1))/(β1·η)
// lr = 0 leaves m alone. [recipes.md §5; errata-2, 22]
#include "backend/ref/update/rules.h"

namespace ng::ref {

void feed_back(const Update& op, std::span<const float> x, std::span<const float> v,
               std::span<float> m) {
  const OptimizerNumbers& n = op.numbers;
  if (n.lr == 0) return;
  const ElementRule rule(op.optimizer, n);
  const std::vector<float> rounded = values_of(op.weight.value.view);
  for (size_t i = 0; i < x.size(); ++i) {
    const float error = x[i] - rounded[i];
    const float rate = n.lr / (n.correction1 * rule.root(v[i]));
    m[i] = m[i] - error * (1 - n.beta1) / (n.beta1 * rate);
  }
}

}  // namespace ng::ref
