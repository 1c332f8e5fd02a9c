// Ranks that are processes, by TCP: where nothing but an address is known of the others, as
// torchrun tells it, and no MPI is there.
#pragma once

#include <chrono>
#include <memory>

#include "comm/comm.h"
#include "comm/sockets.h"

namespace ng::tcp {

/// How long ranks wait for those that have not been started yet.
inline constexpr std::chrono::seconds kMeetingTime{600};

/// Rank `rank` of `ranks` that meet at `at`, where rank 0 listens. Throws Error where they do not
/// within `patience`. Whoever else calls there is not heard.
[[nodiscard]] std::unique_ptr<Comm> world(const Address& at, int rank, int ranks,
                                          std::chrono::milliseconds patience = kMeetingTime);

}  // namespace ng::tcp
