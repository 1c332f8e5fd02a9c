// The CUDA backend: kernels of kernels/perform.h behind the seam, on a card of this machine or on
// an emulated one.
#pragma once

#include <atomic>
#include <memory>

#include "backend/backend.h"
#include "backend/cuda/card.h"

namespace ng {

/// Of the cards that the driver names (CUDA_VISIBLE_DEVICES) number `device`, round and round where
/// there are less. Throws Error where there is no driver or no card of sm_80 or later.
/// `exact`: products by kernels with the bits of `ref`; else by cuBLASLt where it takes them
/// [cuda/route.h], and Error where it is not found.
[[nodiscard]] std::unique_ptr<Backend> make_cuda_backend(bool exact, int device);

/// A card that is emulated on the CPU, each CUDA thread a fiber: results are those of a card, the
/// time they take is not.
struct EmulatedCard {
  uint64_t thread_order = 0;  ///< seed of the order in which CUDA threads go on, which no result
                              ///< depends on; 0: all in turn
  bool is_managed = false;    ///< its memory is within the host's reach, where else the host's code
                              ///< that touches it ends with SIGSEGV
  bool has_units = false;     ///< products by matrix units where those take them [cuda/route.h]
  bool has_messages = false;  ///< to the emulated cards of other threads, as by NCCL
  bool has_graphs = true;     ///< a step is captured once and done again as it was
  int64_t measured_every = 64;  ///< of steps, each so many-th is executed for its times
  int sm = cuda::kEmulatedSm;
  std::atomic<int64_t>* host_waits = nullptr;  ///< counts how often the host waits for the card
};
[[nodiscard]] std::unique_ptr<Backend> make_emulated_cuda_backend(const EmulatedCard& card);

}  // namespace ng
