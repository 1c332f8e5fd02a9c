// Messages between emulated cards of one process, ranks of which are threads: as NCCL carries them.
#pragma once

#include <memory>

#include "backend/cuda/emulated/memory.h"
#include "backend/device_messages.h"

namespace ng::cuda::emulated {

/// A name for a card that no other has.
[[nodiscard]] std::string new_address();

/// `memory` outlives them.
[[nodiscard]] std::unique_ptr<DeviceMessages> make_messages(const Memory& memory, int rank,
                                                            const FromFirst& share);

}  // namespace ng::cuda::emulated
