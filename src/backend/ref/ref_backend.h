// The executable specification: every operation of backend.h as plain loops.
#pragma once

#include <memory>

#include "backend/backend.h"

namespace ng {

/// Runs on the calling thread alone, whatever `threads` allows.
[[nodiscard]] std::unique_ptr<Backend> make_ref_backend(Threads threads);

}  // namespace ng
