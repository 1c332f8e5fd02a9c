#include <algorithm>
#include <cmath>

#include "backend/ref/update/rules.h"
#include "format/scale.h"

namespace ng::ref {
namespace {

constexpr int kMostDoublings = 60;

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

/// The probe whose norm is nearest to the target, the first of equals; no step is one of them.
class Best {
 public:
  Best(double target, double rtol) : target_(target), rtol_(rtol) {}
  /// Whether it is near enough to end the search.
  bool take(float alpha, double f) {
    const double error = std::fabs(f / target_ - 1);
    if (error < error_) {
      error_ = error;
      alpha_ = alpha;
    }
    return error < rtol_;
  }
  [[nodiscard]] float alpha() const { return alpha_; }

 private:
  double target_, rtol_;
  double error_ = 1;  // that of no step
  float alpha_ = 0;
};

float search(const StepNorm& f, const UpdatedWeight& weight, float lr, double target) {
  Best best(target, weight.rtol);
  float lo = 0, hi = lr;
  for (int doublings = 0;; ++doublings) {
    const double reached = f(hi);
    if (best.take(hi, reached)) return best.alpha();
    if (reached >= target) break;
    if (doublings == kMostDoublings) return best.alpha();
    lo = hi;
    hi *= 2;
  }
  for (int i = 0; i < weight.max_iters; ++i) {
    const float mid = (lo + hi) / 2;
    if (mid == lo || mid == hi) break;
    const double reached = f(mid);
    if (best.take(mid, reached)) break;
    (reached < target ? lo : hi) = mid;
  }
  return best.alpha();
}

}  // namespace

double round_precision_aware(const UpdatedWeight& weight, const Before& before) {
  const double target = before.lr * norm(before.u);
  if (!(target > 0)) return 0;
  const StepNorm f(weight, before);
  const float alpha = search(f, weight, before.lr, target);
  if (alpha > 0)
    store(rounded_by(weight.value, Rounding::nearest), f.moved(alpha), {}, f.encode_scale());
  return alpha;
}

}  // namespace ng::ref
