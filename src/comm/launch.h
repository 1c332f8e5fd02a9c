// How this process was started: alone, or by mpirun or srun as one of several ranks.
#pragma once

#include <string_view>

#include "comm/comm.h"

namespace ng {

/// This process as who started it sees it, by the environment alone.
struct Launch {
  int rank = 0, ranks = 1;
};
/// Open MPI's mpirun, and srun with PMIx or PMI, say so; a plain start is one rank.
[[nodiscard]] Launch launch();

/// All ranks of the program. The first call meets the others, of which one_rank() has none; MPI is
/// touched by nothing else. Throws Error where ranks cannot meet, or run different versions.
[[nodiscard]] Comm& world();

/// At a normal end, after the last use of world() and what was split from it: waits for the others.
void leave_world();

/// At the end of a rank that has failed and said so: ends all other ranks too, with exit code
/// `code`. Returns where there are none.
void abort_world(int code);

/// Throws Error on all ranks, naming those whose `text` is not rank 0's. `what`: "the recipe".
void require_same(Comm& comm, std::string_view what, std::string_view text);

}  // namespace ng
