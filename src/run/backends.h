// The registry of backends: one line per backend.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"

namespace ng {

[[nodiscard]] std::vector<std::string_view> backend_names();

/// Whether any has an order of threads that a seed draws: an emulated card, in tests.
[[nodiscard]] bool any_has_thread_order();

/// "80", "90a": the cards that kernels of this program are compiled for; none in one without CUDA.
[[nodiscard]] std::vector<std::string> cuda_architectures();

/// Throws Error naming the known ones for an unknown name, and for a `thread_order` of one that
/// has none. `device`: of those of this host; none: that of this rank.
[[nodiscard]] std::unique_ptr<Backend> make_backend(std::string_view name, Threads threads,
                                                    uint64_t thread_order = 0,
                                                    std::optional<int> device = {});

}  // namespace ng
