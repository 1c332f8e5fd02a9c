// nearest: w' = RN(w + D), D = fl(lr·u). [recipes.md §5; errata-2, 20]
#include "backend/ref/update/rules.h"

namespace ng::ref {

std::vector<float> sum_of(const Before& before) {
  std::vector<float> x(before.w.size());
  for (size_t i = 0; i < x.size(); ++i) x[i] = before.w[i] + before.lr * before.u[i];
  return x;
}

void round_nearest(const UpdatedWeight& weight, const Before& before) {
  store_weight(weight.value.rounded_by(Rounding::nearest), sum_of(before), {}, before.amax);
}

}  // namespace ng::ref
