// In place of mpi_comm.cc where the build found no MPI.
#include "base/error.h"
#include "comm/mpi_comm.h"

namespace ng::mpi {

std::unique_ptr<Comm> world(size_t /*most_bytes_of_message*/) {
  throw Error({.place = "MPI",
               .problem = "started as one of several ranks, but this build has no MPI",
               .remedy = "apt-get install libopenmpi-dev openmpi-bin, then build again"});
}

void finalize() {}

void abort(int /*code*/) {}

}  // namespace ng::mpi
