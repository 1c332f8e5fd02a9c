// A run's folder stands for the model that the run has written.
#pragma once

#include <string>

namespace ng::io {

/// RUN/model where `named` is a run's folder RUN, which holds a run.toml and is no model itself;
/// else `named`. Throws Error where the run has written no model yet.
[[nodiscard]] std::string model_path(const std::string& named);

}  // namespace ng::io
