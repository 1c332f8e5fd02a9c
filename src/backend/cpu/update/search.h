// The search for a precision-aware step in few passes over a tensor: f at several steps is one
// pass. [backend/step_search.h]
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <span>

#include "backend/step_search.h"
#include "base/error.h"

namespace ng::cpu {

constexpr size_t kProbes = 8;  ///< of one pass

/// Finds what search_step finds, with the same bits of f. That f never falls tells of most probes
/// that they neither end the search nor are its result: then only the last one, and the nearest
/// below and above it, have to be seen.
class ForeseenSearch {
 public:
  /// target: what f is to come to, lr·‖u‖ > 0.
  ForeseenSearch(float lr, double target, double rtol, int max_iters)
      : lr_(lr), target_(target), rtol_(rtol), max_iters_(max_iters) {}

  /// Steps to ask f of.
  struct Alphas {
    std::array<float, kProbes> value{};
    size_t count = 0;
    void add(float alpha) {
      const auto end = value.begin() + static_cast<std::ptrdiff_t>(count);
      if (count < kProbes && std::find(value.begin(), end, alpha) == end) value[count++] = alpha;
    }
    [[nodiscard]] std::span<const float> span() const { return {value.data(), count}; }
  };

  /// The last step that the search comes to if f is norm_of(alpha), and the nearest below and
  /// above.
  template <class NormOf>
  [[nodiscard]] Alphas foretold(const NormOf& norm_of) const {
    float last = 0, below = 0, above = 0;
    const auto norm_at = [&](const StepProbe& probe) {
      const double norm = norm_of(probe.alpha);
      last = probe.alpha;
      if (!ends(norm)) (norm < target_ ? below : above) = probe.alpha;
      return norm;
    };
    (void)search_step(norm_at, lr_, target_, rtol_, max_iters_);
    Alphas all;
    for (const float alpha : {last, below, above})
      if (alpha > 0 && exact(alpha) == nullptr) all.add(alpha);
    return all;
  }

  /// f was seen at `alphas`.
  void remember(const Alphas& alphas, std::span<const double> norms) {
    for (size_t i = 0; i < alphas.count; ++i) {
      NG_CHECK(count_ < seen_.size(), count_);
      seen_[count_++] = {alphas.value[i], norms[i]};
    }
  }

  /// norms(alphas, f of them) for at most kProbes; estimate(alpha) is about f.
  template <class Norms, class Estimate>
  [[nodiscard]] float find(const Norms& norms, const Estimate& estimate) {
    double correction = 1;  // of estimates, by what was seen nearby
    const auto about = [&](float alpha) {
      const Seen* const known = certain(alpha);
      return known != nullptr ? known->norm : estimate(alpha) * correction;
    };
    const auto norm_at = [&](const StepProbe& probe) {
      for (int tries = 0; certain(probe.alpha) == nullptr; ++tries) {
        if (const Seen* const near = nearest(probe.alpha); near != nullptr) {
          const double estimated = estimate(near->alpha);
          correction = estimated > 0 ? near->norm / estimated : 1;
        }
        Alphas alphas = foretold(about);
        if (tries > 0 || alphas.count == 0) alphas.add(probe.alpha);
        see(norms, alphas);
      }
      return certain(probe.alpha)->norm;
    };
    const float alpha = search_step(norm_at, lr_, target_, rtol_, max_iters_);
    const Seen* const seen = exact(alpha);
    return seen != nullptr && ends(seen->norm) ? alpha : find(norms);
  }

  /// Without knowing anything before.
  template <class Norms>
  [[nodiscard]] float find(const Norms& norms) {
    const auto norm_at = [&](const StepProbe& probe) {
      if (exact(probe.alpha) == nullptr) see(norms, those_after(probe));
      return exact(probe.alpha)->norm;
    };
    return search_step(norm_at, lr_, target_, rtol_, max_iters_);
  }

 private:
  struct Seen {
    float alpha = 0;
    double norm = 0;
  };

  [[nodiscard]] bool ends(double norm) const { return std::fabs(norm / target_ - 1) < rtol_; }

  /// f(alpha) where it was seen, else null.
  [[nodiscard]] const Seen* exact(float alpha) const {
    for (size_t i = 0; i < count_; ++i)
      if (seen_[i].alpha == alpha) return &seen_[i];
    return nullptr;
  }
  [[nodiscard]] const Seen* nearest(float alpha) const {
    const auto distance = [&](const Seen& s) { return std::fabs(std::log(s.alpha / alpha)); };
    const Seen* best = nullptr;
    for (size_t i = 0; i < count_; ++i)
      if (seen_[i].norm > 0 && (best == nullptr || distance(seen_[i]) < distance(*best)))
        best = &seen_[i];
    return best;
  }
  /// The same, or f of a step that is nearer to the target than f(alpha) is, on the same side, and
  /// yet not near enough; else null.
  [[nodiscard]] const Seen* certain(float alpha) const {
    if (const Seen* const seen = exact(alpha); seen != nullptr) return seen;
    for (size_t i = 0; i < count_; ++i) {
      const Seen& s = seen_[i];
      if (ends(s.norm)) continue;
      if ((s.norm < target_ && alpha <= s.alpha) || (s.norm >= target_ && alpha >= s.alpha))
        return &s;
    }
    return nullptr;
  }

  // A probe and those that may follow it: further doublings, or two more levels of bisection.
  [[nodiscard]] static Alphas those_after(const StepProbe& probe) {
    Alphas all;
    if (probe.hi > 0)
      add_midpoints(probe.lo, probe.hi, 3, all);
    else
      for (float alpha = probe.alpha; all.count < kProbes; alpha *= 2) all.add(alpha);
    return all;
  }
  static void add_midpoints(float lo, float hi, int levels, Alphas& all) {
    if (levels == 0) return;
    const float mid = (lo + hi) / 2;
    all.add(mid);
    add_midpoints(lo, mid, levels - 1, all);
    add_midpoints(mid, hi, levels - 1, all);
  }

  template <class Norms>
  void see(const Norms& norms, const Alphas& alphas) {
    std::array<double, kProbes> found{};
    norms(alphas.span(), std::span<double>(found.data(), alphas.count));
    remember(alphas, found);
  }

  float lr_;
  double target_, rtol_;
  int max_iters_;
  std::array<Seen, 1024> seen_{};  // more than 61 doublings and 32 bisections ask for
  size_t count_ = 0;
};

constexpr int64_t kSampled = 1 << 14;  ///< values of a sample

/// Values of a tensor and what they are to move by: `runs` of `count`.
struct StepSample {
  float* w = nullptr;
  float* u = nullptr;
  int64_t runs = 0, count = 0;
  [[nodiscard]] int64_t size() const { return runs * count; }
};

}  // namespace ng::cpu
