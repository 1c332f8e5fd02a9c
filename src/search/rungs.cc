#include "search/rungs.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace ng::search {

std::vector<Rung> rungs_of(const RungPlan& plan) {
  std::vector<Rung> rungs;
  int64_t candidates = plan.candidates;
  for (; candidates > 2; candidates = (candidates + 1) / 2)
    rungs.push_back({.candidates = candidates});
  rungs.push_back({.candidates = candidates});
  int64_t steps = plan.steps;
  for (size_t r = rungs.size(); r-- > 0;) {
    rungs[r].steps = steps;
    steps = std::max(steps / 2, std::min(plan.first_steps, steps));
  }
  rungs.front().seeds = plan.seeds;
  for (size_t r = 1; r < rungs.size(); ++r)
    rungs[r].seeds = rungs[r - 1].seeds * (rungs[r].steps == rungs[r - 1].steps ? 2 : 1);
  return rungs;
}

std::vector<size_t> kept_of(std::span<const double> losses, int64_t keep) {
  std::vector<size_t> order(losses.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::erase_if(order, [&](size_t i) { return std::isnan(losses[i]); });
  std::ranges::stable_sort(order, {}, [&](size_t i) { return losses[i]; });
  if (std::ssize(order) > keep) order.resize(static_cast<size_t>(keep));
  return order;
}

}  // namespace ng::search
