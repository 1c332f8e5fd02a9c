// precision_aware: w' = RN(w + αu) with ‖w' - w‖ = lr·‖u‖ within rtol, by doubling and bisection.
// [recipes.md §5; errata-2, 23]
#include <cmath>

#include "backend/ref/update/rules.h"
#include "backend/step_search.h"
#include "format/scale.h"

namespace ng::ref {
namespace {

double norm(std::span<const float> x) {
  double squares = 0;
  for (const float v : x) squares += static_cast<double>(v) * v;
  return std::sqrt(squares);
}

/// f(α) = ‖RN(w + αu) - w‖ on one grid: a step function that never falls.
class StepNorm {
 public:
  StepNorm(const UpdatedWeight& weight, const Before& before)
      : before_(before), codec_(*weight.value.cast.element), overflow_(weight.value.cast.overflow) {
    encode_ = encode_scale_of(weight.value, moved(before.lr));
    decode_ = 1.0f / encode_;
  }

  [[nodiscard]] std::vector<float> moved(float alpha) const {
    std::vector<float> x(before_.w.size());
    for (size_t i = 0; i < x.size(); ++i) x[i] = before_.w[i] + alpha * before_.u[i];
    return x;
  }
  [[nodiscard]] double operator()(float alpha) const {
    std::vector<float> change = moved(alpha);
    for (size_t i = 0; i < change.size(); ++i) {
      const uint32_t code = codec_.encode(change[i] * encode_, {}, overflow_rule(overflow_));
      change[i] = codec_.decode(code) * decode_ - before_.w[i];
    }
    return norm(change);
  }
  [[nodiscard]] float encode_scale() const { return encode_; }

 private:
  const Before& before_;
  ElementCodec codec_;
  Overflow overflow_;
  float encode_ = 1, decode_ = 1;
};

}  // namespace

double round_precision_aware(const UpdatedWeight& weight, const Before& before) {
  const double length = norm(before.u);
  if (!(before.lr * length > 0)) return 0;
  const StepNorm f(weight, before);
  const auto norm_at = [&](const StepProbe& probe) { return f(probe.alpha); };
  const float alpha =
      weight.search == StepSearch::printed
          ? search_step_as_printed(norm_at, before.lr * (length * length), weight.rtol,
                                   weight.max_iters)
          : search_step(norm_at, before.lr, before.lr * length, weight.rtol, weight.max_iters);
  if (alpha > 0)
    store(weight.value.rounded_by(Rounding::nearest), f.moved(alpha), {}, f.encode_scale());
  return alpha;
}

}  // namespace ng::ref
