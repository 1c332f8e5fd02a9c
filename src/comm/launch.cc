#include "comm/launch.h"

#include <unistd.h>

#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "base/version.h"
#include "comm/agreement.h"
#include "comm/mpi_comm.h"
#include "comm/tcp_comm.h"

namespace ng {
namespace {

/// A count or rank in the environment.
std::optional<int> number(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr || *text == '\0') return {};
  char* end = nullptr;
  const long value = std::strtol(text, &end, 10);
  if (*end != '\0' || value < 0 || value > 1 << 30) return {};
  return static_cast<int>(value);
}

std::optional<int> first_number(std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (const std::optional<int> value = number(name)) return value;
  return {};
}

/// What torchrun says, and whoever sets the same words. Where its own store listens on that port,
/// ranks meet at the next.
tcp::Address meeting_place() {
  const char* const shared = std::getenv("TORCHELASTIC_USE_AGENT_STORE");
  const bool is_taken = shared != nullptr && std::string_view(shared) == "True";
  return {std::getenv("MASTER_ADDR"), number("MASTER_PORT").value_or(0) + (is_taken ? 1 : 0)};
}
bool has_meeting_place() {
  const char* const host = std::getenv("MASTER_ADDR");
  return host != nullptr && *host != '\0' && number("MASTER_PORT").value_or(0) > 0;
}

/// The one group that all of the program's ranks are in: there is one MPI to a process.
std::unique_ptr<Comm>& the_world() {
  static std::unique_ptr<Comm> world;
  return world;
}

/// `problem` is what has failed here, for the others to know; "" where nothing has.
std::unique_ptr<Comm> meet(const std::string& problem) {
  const Launch started = launch();
  if (started.ranks == 1) return one_rank();
  if (!started.can_meet)  // each would be alone, do the whole work and write the same files
    throw Error({.place = "srun",
                 .problem = fmt::format("{} tasks were started that do not know of one another",
                                        started.ranks),
                 .remedy = fmt::format("srun --mpi=pmix -n {} ..., or one process: srun -n 1 ...",
                                       started.ranks)});
  const bool is_mpi = started.starter != kTorchrun;
  std::unique_ptr<Comm> all =
      is_mpi ? mpi::world() : tcp::world(meeting_place(), started.rank, started.ranks);
  if (all->ranks() != started.ranks)
    throw Error({.place = "MPI",
                 .problem = fmt::format("{} ranks were started, but MPI sees {}", started.ranks,
                                        all->ranks()),
                 .remedy = "mpirun of the MPI that this was built with, or srun --mpi=pmix"});
  require_same(*all, "the version of the program", version());
  require_no_problem(*all, problem);
  return all;
}

}  // namespace

// Under Slurm SLURM_NTASKS alone says nothing: a script that runs one process has it too. What srun
// starts has the tasks of its step, and PMI's rank only where it is started for MPI.
Launch launch() {
  Launch launch;
  const char* of_host = nullptr;  ///< what the starter calls a rank's number there
  const std::optional<int> of_torch = number("WORLD_SIZE");
  const bool by_torch = of_torch && number("RANK") && has_meeting_place();
  // Its workers have the words of what started torchrun, too.
  const bool is_worker = by_torch && std::getenv("TORCHELASTIC_RUN_ID") != nullptr;
  if (const auto ranks = number("OMPI_COMM_WORLD_SIZE"); ranks && !is_worker) {
    launch = {number("OMPI_COMM_WORLD_RANK").value_or(0), *ranks, kMpirun};
    of_host = "OMPI_COMM_WORLD_LOCAL_RANK";
  } else if (const auto rank = first_number({"PMIX_RANK", "PMI_RANK"}); rank && !is_worker) {
    launch = {*rank,
              first_number({"PMI_SIZE", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"}).value_or(1)};
    launch.starter = kSrun;
    of_host = "SLURM_LOCALID";
  } else if (by_torch) {
    launch = {*number("RANK"), *of_torch, kTorchrun};
    of_host = "LOCAL_RANK";
  } else if (const auto tasks = number("SLURM_STEP_NUM_TASKS")) {
    if (*tasks > 1) launch = {number("SLURM_PROCID").value_or(0), *tasks, kSrun, false};
  }
  if (launch.rank >= launch.ranks) return {};
  if (of_host != nullptr) launch.local_rank = number(of_host).value_or(0);
  return launch;
}

Comm& world() {
  if (!the_world()) the_world() = meet("");
  return *the_world();
}

bool has_met() { return launch().ranks == 1 || the_world() != nullptr; }

std::string failure_of_all(const std::string& mine) {
  try {
    (void)meet(mine);
  } catch (const SharedFailure& failure) {
    return failure.what();
  } catch (const Error&) {  // nobody can meet, so that all fail
  }
  return mine;
}

void leave_world() {
  the_world().reset();
  mpi::finalize();
}

void abort_world(int code) {
  mpi::abort(code);
  if (launch().starter != kTorchrun || the_world() == nullptr) return;
  unlink_temporaries();
  ::_exit(code);  // which closes what the others wait at
}

}  // namespace ng
