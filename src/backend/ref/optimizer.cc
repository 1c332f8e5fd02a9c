#include "backend/ref/optimizer.h"

#include <cmath>

#include "backend/host_step.h"
#include "backend/ref/number.h"

namespace ng::ref {

void perform(const AdamW& a) {
  NG_CHECK(same_shape(a.weight, a.grad) && same_shape(a.weight, a.m) && same_shape(a.weight, a.v),
           a.weight.rows, a.weight.cols, a.grad.rows, a.grad.cols, a.m.rows, a.m.cols, a.v.rows,
           a.v.cols);
  if (a.control != nullptr && a.control->skip != 0) return;
  const float grad_scale = a.control == nullptr ? 1.0f : a.control->grad_scale;
  const float keep = 1 - a.lr * a.weight_decay;
  const Rows<float> weight = fp32_rows(a.weight, "adamw"), first = fp32_rows(a.m, "adamw"),
                    second = fp32_rows(a.v, "adamw");
  const Reader grad(a.grad);
  for (int64_t t = 0; t < a.weight.rows; ++t)
    for (int64_t c = 0; c < a.weight.cols; ++c) {
      float& w = weight.row(t)[c];
      float& m = first.row(t)[c];
      float& v = second.row(t)[c];
      const float g = grad(t, c) * grad_scale;
      m = a.beta1 * m + (1 - a.beta1) * g;
      v = a.beta2 * v + (1 - a.beta2) * (g * g);
      const float m_hat = m / a.correction1;
      const float v_hat = v / a.correction2;
      w = w * keep - a.lr * m_hat / (std::sqrt(v_hat) + a.eps);
    }
}

void perform(const DecideStep& op) { decide_step_on_host(op); }

}  // namespace ng::ref
