#include "backend/ref/update/rules.h"

namespace ng::ref {

void round_sum(const UpdatedWeight& weight, const Before& before) {
  std::vector<float> x(before.w.size());
  for (size_t i = 0; i < x.size(); ++i) x[i] = before.w[i] + before.lr * before.u[i];
  const bool draws = weight.rule == UpdateRule::stochastic;
  store_weight(weight.value.rounded_by(draws ? Rounding::stochastic : Rounding::nearest), x,
               before.key);
}

}  // namespace ng::ref
