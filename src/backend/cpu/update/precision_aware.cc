// The norms that the search for a precision-aware step asks for, several in one pass over the
// tensors. [backend/step_search.h]
#include <cmath>
#include <map>

#include "backend/cpu/update/updater.h"
#include "backend/step_search.h"

namespace ng::cpu {
namespace {

constexpr size_t kDoublingsAtOnce = 8;

void add_midpoints(float lo, float hi, int levels, std::vector<float>& all) {
  if (levels == 0) return;
  const float mid = (lo + hi) / 2;
  all.push_back(mid);
  add_midpoints(lo, mid, levels - 1, all);
  add_midpoints(mid, hi, levels - 1, all);
}

// A probe and those that may follow it: further doublings, or two more levels of bisection.
std::vector<float> with_those_after(const StepProbe& probe) {
  std::vector<float> all;
  if (probe.hi > 0) {
    add_midpoints(probe.lo, probe.hi, 3, all);
    return all;
  }
  for (float alpha = probe.alpha; all.size() < kDoublingsAtOnce; alpha *= 2) all.push_back(alpha);
  return all;
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
  const auto norm_at = [&](const StepProbe& probe) {
    if (const auto found = known.find(probe.alpha); found != known.end()) return found->second;
    const std::vector<float> alphas = with_those_after(probe);
    std::vector<double> norms(alphas.size());
    norms_at(alphas, norms);
    for (size_t i = 0; i < alphas.size(); ++i) known[alphas[i]] = norms[i];
    return known.at(probe.alpha);
  };
  step_ = search_step(norm_at, lr, target, op_.weight.rtol, op_.weight.max_iters);
}

}  // namespace ng::cpu
