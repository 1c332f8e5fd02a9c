// The run that a study looks at.
#pragma once

#include <string>
#include <string_view>

#include "train/run_config.h"

namespace ng::study {

/// The run.toml in a run's folder. Throws Error, naming the study, where there is none.
[[nodiscard]] RunConfig load_run(std::string_view study, const std::string& folder);

}  // namespace ng::study
