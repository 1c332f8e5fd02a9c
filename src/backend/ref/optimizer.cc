#include "backend/ref/optimizer.h"

#include <algorithm>
#include <cmath>

#include "backend/ref/number.h"

namespace ng::ref {

void adamw(const AdamW& a) {
  NG_CHECK(same_shape(a.weight, a.grad) && same_shape(a.weight, a.m) && same_shape(a.weight, a.v),
           a.weight.rows, a.weight.cols, a.grad.rows, a.grad.cols, a.m.rows, a.m.cols, a.v.rows,
           a.v.cols);
  if (a.control != nullptr && a.control->skip != 0) return;
  const float grad_scale = a.control == nullptr ? 1.0f : a.control->grad_scale;
  const float keep = 1 - a.lr * a.weight_decay;
  for (int64_t t = 0; t < a.weight.rows; ++t)
    for (int64_t c = 0; c < a.weight.cols; ++c) {
      float& w = a.weight.row(t)[c];
      float& m = a.m.row(t)[c];
      float& v = a.v.row(t)[c];
      const float g = a.grad.row(t)[c] * grad_scale;
      m = a.beta1 * m + (1 - a.beta1) * g;
      v = a.beta2 * v + (1 - a.beta2) * (g * g);
      const float m_hat = m / a.correction1;
      const float v_hat = v / a.correction2;
      w = w * keep - a.lr * m_hat / (std::sqrt(v_hat) + a.eps);
    }
}

}  // namespace ng::ref
