// The CUDA backend: kernels of kernels/perform.h behind the seam. What a machine's memory and
// streams are is left to who derives from it; so far that is the emulated card alone.
#pragma once

#include <memory>

#include "backend/backend.h"

namespace ng {

/// A card of Hopper's that is emulated on the CPU, each CUDA thread a fiber: results are those of a
/// card, the time they take is not. `thread_order` is the seed of the order in which CUDA threads
/// go on, which no result depends on; 0: all in turn.
[[nodiscard]] std::unique_ptr<Backend> make_emulated_cuda_backend(uint64_t thread_order);

}  // namespace ng
