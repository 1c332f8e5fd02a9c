#include "comm/launch.h"

#include <fmt/ranges.h>

#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/version.h"
#include "comm/agreement.h"
#include "comm/mpi_comm.h"

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

/// The one group that all of the program's ranks are in: there is one MPI to a process.
std::unique_ptr<Comm>& the_world() {
  static std::unique_ptr<Comm> world;
  return world;
}

std::unique_ptr<Comm> meet() {
  const Launch started = launch();
  if (started.ranks == 1) return one_rank();
  std::unique_ptr<Comm> all = mpi::world();
  if (all->ranks() != started.ranks)
    throw Error({.place = "MPI",
                 .key = "",
                 .problem = fmt::format("{} ranks were started, but MPI sees {}", started.ranks,
                                        all->ranks()),
                 .remedy = "mpirun of the MPI that this was built with, or srun --mpi=pmix"});
  require_same(*all, "the version of the program", version());
  return all;
}

}  // namespace

// Under Slurm SLURM_NTASKS alone says nothing: a script that runs one process has it too. PMI's
// rank is there only where srun starts each process for MPI.
Launch launch() {
  Launch launch;
  if (const std::optional<int> ranks = number("OMPI_COMM_WORLD_SIZE")) {
    launch = {number("OMPI_COMM_WORLD_RANK").value_or(0), *ranks};
  } else if (const std::optional<int> rank = first_number({"PMIX_RANK", "PMI_RANK"})) {
    launch = {*rank,
              first_number({"PMI_SIZE", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"}).value_or(1)};
  }
  return launch.rank < launch.ranks ? launch : Launch{};
}

Comm& world() {
  if (!the_world()) the_world() = meet();
  return *the_world();
}

void leave_world() {
  the_world().reset();
  mpi::finalize();
}

void abort_world(int code) { mpi::abort(code); }

void require_same(Comm& comm, std::string_view what, std::string_view text) {
  const std::vector<std::string> texts = texts_of_all(comm, std::string(text));
  std::vector<int> others;
  for (size_t rank = 0; rank < texts.size(); ++rank)
    if (texts[rank] != texts[0]) others.push_back(static_cast<int>(rank));
  if (others.empty()) return;
  throw Error({.place = others.size() == 1 ? fmt::format("rank {}", others.front())
                                           : fmt::format("ranks {}", fmt::join(others, ", ")),
               .key = std::string(what),
               .problem = fmt::format("\"{}\", not \"{}\" as rank 0's",
                                      texts[static_cast<size_t>(others.front())], texts[0]),
               .remedy = "the same on all ranks"});
}

}  // namespace ng
