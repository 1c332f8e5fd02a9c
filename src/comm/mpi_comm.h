// Ranks that are processes, by MPI. Where the build found none, mpi_comm_missing.cc stands in.
#pragma once

#include <cstddef>
#include <memory>

#include "comm/comm.h"

namespace ng::mpi {

/// Bytes of one message; more travel as several, for MPI counts in int.
inline constexpr size_t kMostBytesOfMessage = size_t{1} << 30;

/// All processes of the job; the first call initializes MPI. Throws Error where MPI fails, or this
/// build has none. One process may make several, each of which is a group of its own.
[[nodiscard]] std::unique_ptr<Comm> world(size_t most_bytes_of_message = kMostBytesOfMessage);

/// Ends MPI where it was initialized, after all of the groups are gone; waits for the others.
void finalize();

/// Ends all processes of the job where MPI was initialized, else returns.
void abort(int code);

}  // namespace ng::mpi
