// Sections of study noise, most in a file of their own: noise_draws.cc ... noise_rivals.cc. Each
// takes one step of `progress`.
#pragma once

#include <span>

#include "study/study.h"
#include "study/written.h"
#include "train/schedule.h"

namespace ng::study {

/// Probabilities of R: of the bit recipe, of Eq. 10, of the rounded normal, and of draws.
[[nodiscard]] Section noise_draws_section(const Settings& settings, Progress& progress);
/// Lemma 1: which noise the cast of ŵ takes away.
[[nodiscard]] Section noise_cast_section(const Settings& settings, Progress& progress);
/// Lemma 2 and Proposition 4: which weights noise takes away.
[[nodiscard]] Section noise_survival_section(const Settings& settings, Progress& progress);
/// Proposition 3 and Table C.1: the least exponent and mantissa bits for each bit-width.
[[nodiscard]] Section noise_precision_section(const Settings& settings, Progress& progress);
/// Fig. 2 and D.1: noise that the cast drops, and matrices that are not their transpose's.
[[nodiscard]] Section noise_blocks_section(const Settings& settings, Progress& progress);
/// DiffQ and NIPQ, as 002 has them and as they were published.
[[nodiscard]] Section noise_rivals_section(const Settings& settings, Progress& progress);

// What decay alone makes of a learned bit-width. [recipes.md §1.1, "Scaling the decay to short
// runs"; source 002, Table E.1]

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
