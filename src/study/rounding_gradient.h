// The part of study rounding that looks at the gradient of a model.
#pragma once

#include "study/study.h"

namespace ng::study {

/// How often gradient_section() steps `progress`.
[[nodiscard]] int64_t gradient_steps(const Settings& settings);
[[nodiscard]] Section gradient_section(const Settings& settings, Progress& progress);

}  // namespace ng::study
