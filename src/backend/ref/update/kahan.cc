// kahan: y = D - c;  w' = RN(w + y);  c' = BF16((w' - w) - y), D = fl(lr·u).
// [recipes.md §5; errata-2, 20]
#include "backend/ref/update/rules.h"

namespace ng::ref {

void round_kahan(const UpdatedWeight& weight, const Before& before) {
  const std::vector<float> c = values_of(weight.carry);
  std::vector<float> y(c.size()), x(c.size());
  for (size_t i = 0; i < y.size(); ++i) {
    y[i] = before.lr * before.u[i] - c[i];
    x[i] = before.w[i] + y[i];
  }
  store_weight(weight.value.rounded_by(Rounding::nearest), x);
  const Reader t(weight.value.view);
  const Writer carry(weight.carry);
  for (int64_t r = 0; r < weight.carry.rows; ++r)
    for (int64_t k = 0; k < weight.carry.cols; ++k) {
      const auto i = static_cast<size_t>(r * weight.carry.cols + k);
      carry.put(r, k, t(r, k) - before.w[i] - y[i]);
    }
}

}  // namespace ng::ref
