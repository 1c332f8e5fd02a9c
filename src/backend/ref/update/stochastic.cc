// stochastic: w' = SR(w + D), D = fl(lr·u), 16 bits of purpose 8. [recipes.md §5; errata-2, 20]
#include "backend/ref/update/rules.h"

namespace ng::ref {

void round_stochastic(const UpdatedWeight& weight, const Before& before) {
  store_weight(weight.value.rounded_by(Rounding::stochastic), sum_of(before), before.key);
}

}  // namespace ng::ref
