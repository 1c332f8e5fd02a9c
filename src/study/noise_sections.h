// Sections of study noise, each in a file of its own: noise_draws.cc ... noise_speed.cc. Each takes
// one step of `progress`.
#pragma once

#include "study/study.h"

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
/// Where decay alone brings bit-widths, and what short runs need.
[[nodiscard]] Section noise_decay_section(const Settings& settings, Progress& progress);
/// Fig. 6: how fast noise is made, beside normal numbers by Box and Muller.
[[nodiscard]] Section noise_speed_section(const Settings& settings, Progress& progress);

}  // namespace ng::study
