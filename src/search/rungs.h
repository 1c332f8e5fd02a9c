// Successive halving: rungs of ever fewer candidates in ever longer, or more, runs, each of about
// the same cost. [Jamieson and Talwalkar 2016]
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ng::search {

struct Rung {
  int64_t candidates = 0;
  int64_t steps = 0;  ///< of each run
  int64_t seeds = 0;  ///< runs of each candidate
  friend bool operator==(const Rung&, const Rung&) = default;
};

struct RungPlan {
  int64_t candidates = 0;   ///< of the first rung
  int64_t first_steps = 0;  ///< at least, of the first rung
  int64_t steps = 0;        ///< of the last
  int64_t seeds = 0;        ///< of the first
};

/// Candidates are halved, the odd one stays, down to two. Going back from the last rung steps are
/// halved too, down to first_steps; where a rung has the steps of the one before it, it has twice
/// the seeds.
[[nodiscard]] std::vector<Rung> rungs_of(const RungPlan& plan);

/// Places of the `keep` smallest losses, the smallest first; NaN, of what diverged, is never kept.
[[nodiscard]] std::vector<size_t> kept_of(std::span<const double> losses, int64_t keep);

}  // namespace ng::search
