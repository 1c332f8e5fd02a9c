// The fast backend: Highway kernels for the fastest instruction set of the machine.
#pragma once

#include <memory>

#include "backend/backend.h"

namespace ng {

/// Uses at most `threads` threads; takes its scratch now.
[[nodiscard]] std::unique_ptr<Backend> make_cpu_backend(Threads threads);

}  // namespace ng
