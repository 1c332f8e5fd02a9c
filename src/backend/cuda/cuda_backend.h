// The CUDA backend: kernels of kernels/perform.h behind the seam, on a card of this machine or on
// an emulated one.
#pragma once

#include <memory>

#include "backend/backend.h"

namespace ng {

/// The first card that the driver names (CUDA_VISIBLE_DEVICES). Throws Error where there is no
/// driver or no card of sm_80 or later.
[[nodiscard]] std::unique_ptr<Backend> make_cuda_backend();

/// A card of Hopper's that is emulated on the CPU, each CUDA thread a fiber: results are those of a
/// card, the time they take is not. `thread_order` is the seed of the order in which CUDA threads
/// go on, which no result depends on; 0: all in turn. `managed`: its memory is within the host's
/// reach, where else the host's code that touches it ends with SIGSEGV.
[[nodiscard]] std::unique_ptr<Backend> make_emulated_cuda_backend(uint64_t thread_order,
                                                                  bool managed = false);

}  // namespace ng
