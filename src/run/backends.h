// The registry of backends: one line per backend.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "backend/backend.h"

namespace ng {

[[nodiscard]] std::vector<std::string_view> backend_names();

/// Throws Error naming the known ones for an unknown name.
[[nodiscard]] std::unique_ptr<Backend> make_backend(std::string_view name, Threads threads);

}  // namespace ng
