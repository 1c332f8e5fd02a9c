// Messages between cards by NCCL, looked for when they are asked for. Never run on a card yet
// (docs/gpu.md). Its sums are not used, for they round at every hop: it carries bytes.
#pragma once

#include <memory>
#include <string>

#include "backend/cuda/words.h"
#include "backend/device_messages.h"

namespace ng::cuda {

/// Whether libnccl.so.2 is found, and the program was built with its header.
[[nodiscard]] bool has_nccl();

/// Its host and place there.
[[nodiscard]] std::string card_address(int device);

/// What ranks compute on.
struct ComputingCard {
  int device = 0;
  const CardStream& stream;  ///< behind which messages go
};
/// Throws Error where NCCL refuses.
[[nodiscard]] std::unique_ptr<DeviceMessages> make_nccl_messages(const ComputingCard& card,
                                                                 int rank, int ranks,
                                                                 const FromFirst& share);

}  // namespace ng::cuda
