// How this process was started: alone, or by mpirun, srun or torchrun as one of several ranks.
#pragma once

#include <string>
#include <string_view>

#include "comm/comm.h"

namespace ng {

inline constexpr std::string_view kMpirun = "mpirun", kSrun = "srun --mpi=pmix",
                                  kTorchrun = "torchrun";

/// This process as who started it sees it, by the environment alone.
struct Launch {
  int rank = 0, ranks = 1;
  std::string_view starter{};  ///< the command that started it so; empty: a plain start
  bool can_meet = true;        ///< whether the starter tells ranks how to find one another
  int local_rank = 0;          ///< among those of this host
};
/// Open MPI's mpirun, and srun with PMIx or PMI, say so; tasks of srun without these are ranks that
/// cannot meet. torchrun says RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, as whoever may who
/// starts ranks by hand. A plain start is one rank.
[[nodiscard]] Launch launch();

/// All ranks of the program. The first call meets the others, of which one_rank() has none; MPI is
/// touched by nothing else, and torchrun's meet by TCP. Throws Error where ranks cannot meet,
/// SharedFailure where they run different versions or one has failed before it came here.
[[nodiscard]] Comm& world();

/// Whether there is nobody to meet, or world() has met them.
[[nodiscard]] bool has_met();

/// For a rank that fails before it has met the others: tells them why, who hear of it in world().
/// Returns what rank 0 is to say for all.
[[nodiscard]] std::string failure_of_all(const std::string& mine);

/// At a normal end, after the last use of world() and what was split from it: waits for the others.
void leave_world();

/// At the end of a rank that has failed and said so: ends all other ranks too, with exit code
/// `code`, torchrun's by its own end, which they notice. Returns where there are none.
void abort_world(int code);

}  // namespace ng
