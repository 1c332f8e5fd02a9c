// Messages whose bytes lie in a backend's memory. A transport reads and writes the host's: where a
// backend's is out of its reach, they go from device to device, or through copies at the hosts
// where devices have no way to one another: ranks that share one, or lack NCCL.
#pragma once

#include "backend/backend.h"
#include "comm/comm.h"

namespace ng {

/// Comm::exchange.
void exchange(Comm& comm, Backend& backend, std::span<const Outgoing> out,
              std::span<const Incoming> in);

/// Comm::all_gather of equal slices of `all`, each in its place at its rank.
void all_gather(Comm& comm, Backend& backend, Traffic kind, std::span<std::byte> all);

/// Comm::all_to_all of equal pieces.
void all_to_all(Comm& comm, Backend& backend, Traffic kind, std::span<const std::byte> out,
                std::span<std::byte> in);

}  // namespace ng
