// The executable specification: every operation of operations.h as plain loops.
#pragma once

#include <memory>

#include "backend/backend.h"

namespace ng {

/// Runs on the calling thread alone, whatever `threads` allows.
[[nodiscard]] std::unique_ptr<Backend> make_ref_backend(Threads threads);

}  // namespace ng
