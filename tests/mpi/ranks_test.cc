// The same by MPI: CTest starts this by mpirun with 2, 3 and 4 ranks, and plainly, as one.
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "base/files.h"
#include "comm/agreement.h"
#include "comm/launch.h"
#include "comm/mpi_comm.h"
#include "mpi/gradients_of_ranks.h"
#include "support/comm_cases.h"
#include "support/scratch_folder.h"
#include "tools/reduce_file.h"

namespace ng {
namespace {

TEST(World, HasAsManyRanksAsWereStarted) {
  const char* wanted = std::getenv("NG_TEST_RANKS");
  EXPECT_EQ(world().ranks(), wanted == nullptr ? 1 : std::atoi(wanted));
  EXPECT_EQ(world().rank(), launch().rank);
}

TEST(World, DoesEverything) { comm_cases::everything(world()); }

TEST(World, MessagesTravelInPieces) {
  if (world().ranks() == 1) GTEST_SKIP() << "a plain start leaves MPI alone";
  const std::unique_ptr<Comm> comm = mpi::world(1000);
  comm_cases::everything(*comm);
}

class Reductions : public ScratchFolder {
 protected:
  /// What rank 0 reports of gradients over `ranks`; the file is `name`.
  [[nodiscard]] std::string report(Comm& ranks, const std::string& folder, const char* name) const {
    const ReduceFileSettings settings{.accumulate = 3, .threads = {1}};
    const ReduceFileReport r =
        reduce_file(join_path(folder, "in"), join_path(folder, name),
                    Recipe::load(join_path(folder, "r.toml")), settings, ranks);
    return fmt::format("{} {} {} {:a} {} {} {} {}", r.wire, r.is_ring, r.is_skipped, r.snr_db,
                       fmt::join(r.sent, " "), fmt::join(r.saturated, " "), r.saturated_sums,
                       r.mu_k);
  }
  /// The same of one process that nobody has told of others, which does what all would.
  [[nodiscard]] std::string report_of_plain_start() const {
    std::map<std::string, std::string> told;
    for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK"}) {
      if (const char* value = std::getenv(name)) told[name] = value;
      ::unsetenv(name);
    }
    const std::string alone = report(*one_rank(), folder_, "one");
    for (const auto& [name, value] : told) ::setenv(name.c_str(), value.c_str(), 1);
    return alone;
  }
};

TEST_F(Reductions, WriteTheSameBytesAsOneProcess) {
  if (world().ranks() == 1) GTEST_SKIP() << "a plain start is one process";
  const bool is_first = world().rank() == 0;
  const std::string folder = text_of(world(), 0, folder_);
  if (is_first) {
    make_folders(folder);
    write_gradients(in("in"), world().ranks());
  }
  for (const std::string& wire : kWires) {
    SCOPED_TRACE(wire);
    if (is_first) write_file_atomically(in("r.toml"), recipe_of_wire(wire));
    world().barrier();
    const std::string many = report(world(), folder, "many");
    if (!is_first) continue;
    EXPECT_EQ(many, report_of_plain_start());
    EXPECT_TRUE(read_file(in("many"), 1 << 20) == read_file(in("one"), 1 << 20));
  }
  world().barrier();
}

}  // namespace
}  // namespace ng

// A rank that fails ends the others, which may wait for it.
int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const int code = RUN_ALL_TESTS();
  if (code != 0) ng::abort_world(code);
  ng::leave_world();
  return code;
}
