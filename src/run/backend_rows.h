// The backends that a program has.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "backend/backend.h"

namespace ng {

struct BackendRow {
  std::string_view name;
  std::unique_ptr<Backend> (*make)(Threads threads);
};

/// One line per backend. A program that is linked with another definition of this has others.
[[nodiscard]] std::span<const BackendRow> backend_rows();

}  // namespace ng
