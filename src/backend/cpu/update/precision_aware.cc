// The step α with ‖RN(w + αu) - w‖ = lr·‖u‖: f is a step function that never falls; it is bracketed
// by doubling lr and then bisected. [recipes.md §5; errata-2, 23]
#include <cmath>
#include <map>

#include "backend/cpu/update/updater.h"

namespace ng::cpu {
namespace {

constexpr int kMostDoublings = 60;
constexpr size_t kDoublingsAtOnce = 8;

// The probe whose norm is nearest to the target, the first of equals; no step is one of them.
class Best {
 public:
  Best(double target, double rtol) : target_(target), rtol_(rtol) {}
  // Whether it is near enough to end the search.
  bool take(float alpha, double norm) {
    const double error = std::fabs(norm / target_ - 1);
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

// Midpoints that two levels of bisection may ask for after `mid`.
std::vector<float> midpoints(float lo, float mid, float hi) {
  std::vector<float> all = {mid};
  const auto halve = [&](float a, float b, const auto& self, int levels) -> void {
    if (levels == 0) return;
    const float m = (a + b) / 2;
    all.push_back(m);
    self(a, m, self, levels - 1);
    self(m, b, self, levels - 1);
  };
  halve(lo, mid, halve, 2);
  halve(mid, hi, halve, 2);
  return all;  // seven
}

}  // namespace

void Updater::norms_at(std::span<const float> alphas, std::span<double> norms) {
  const int64_t items = walk_.items();
  NG_CHECK(alphas.size() <= kProbes, alphas.size());
  parallel_for(workspace_.threads(), items, [&](int64_t item, int worker) {
    auto& b = *reinterpret_cast<StretchBuffers*>(workspace_.worker(worker).data());
    double sums[kProbes] = {};
    walk_.for_item(item, [&](const Stretch& at) {
      compute(at, b);
      for (size_t i = 0; i < alphas.size(); ++i) {
        make_x(at, b, alphas[i]);
        round_value(at, b);
        sums[i] += squared_distance(b.rounded, b.w, at.count);
      }
    });
    std::copy_n(sums, alphas.size(), sums_ + static_cast<size_t>(item) * kProbes);
  });
  for (size_t i = 0; i < alphas.size(); ++i) {
    double sum = 0;
    for (int64_t item = 0; item < items; ++item)
      sum += sums_[static_cast<size_t>(item) * kProbes + i];
    norms[i] = std::sqrt(sum);
  }
}

double Updater::norm_of_direction() {
  const int64_t items = walk_.items();
  parallel_for(workspace_.threads(), items, [&](int64_t item, int worker) {
    auto& b = *reinterpret_cast<StretchBuffers*>(workspace_.worker(worker).data());
    double sum = 0;
    walk_.for_item(item, [&](const Stretch& at) {
      compute(at, b);
      sum += sum_of_squares(b.u, at.count);
    });
    sums_[item] = sum;
  });
  double sum = 0;
  for (int64_t item = 0; item < items; ++item) sum += sums_[item];
  return std::sqrt(sum);
}

void Updater::find_step() {
  const float lr = op_.numbers.lr;
  const double target = lr * norm_of_direction();
  step_ = 0;
  if (!(target > 0)) return;
  std::map<float, double> known;
  // f(α); computes those of all `also` in the same pass.
  const auto f = [&](float alpha, std::vector<float> also) {
    if (const auto found = known.find(alpha); found != known.end()) return found->second;
    std::vector<double> norms(also.size());
    norms_at(also, norms);
    for (size_t i = 0; i < also.size(); ++i) known[also[i]] = norms[i];
    return known.at(alpha);
  };
  const auto doublings = [](float from) {
    std::vector<float> all;
    for (size_t i = 0; i < kDoublingsAtOnce; ++i, from *= 2) all.push_back(from);
    return all;
  };

  Best best(target, op_.weight.rtol);
  const auto search = [&] {
    float lo = 0, hi = lr;
    for (int doubled = 0;; ++doubled) {
      const double reached = f(hi, doublings(hi));
      if (best.take(hi, reached)) return;
      if (reached >= target) break;
      if (doubled == kMostDoublings) return;
      lo = hi;
      hi *= 2;
    }
    for (int i = 0; i < op_.weight.max_iters; ++i) {
      const float mid = (lo + hi) / 2;
      if (mid == lo || mid == hi) return;
      const double reached = f(mid, midpoints(lo, mid, hi));
      if (best.take(mid, reached)) return;
      (reached < target ? lo : hi) = mid;
    }
  };
  search();
  step_ = best.alpha();
}

}  // namespace ng::cpu
