// What decay alone makes of a learned bit-width. [recipes.md §1.1, "Scaling the decay to short
// runs"; source 002, Table E.1]
#pragma once

#include <span>

#include "train/schedule.h"

namespace ng::study {

/// A run of Table E.1: linear decay with warm-up, b from 6 to 4.
struct DecayRun {
  const char* name;
  Schedule schedule;
  double weight_decay = 0.1;
  double b_init = 6, b_target = 4;
  double lr_sum = 0;  ///< the specification's Σ lr
  double b_t = 0;     ///< the specification's end
};
[[nodiscard]] std::span<const DecayRun> decay_runs();

/// After all steps.
struct DecayEnd {
  double lr_sum = 0;
  double b_i = 0;  ///< Π (1 - lr·decay), from 1
};
[[nodiscard]] DecayEnd decay_alone(const Schedule& schedule, double weight_decay);

}  // namespace ng::study
