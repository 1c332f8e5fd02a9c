// The same by MPI: CTest starts this by mpirun with 2, 3 and 4 ranks, and plainly, as one.
#include <gtest/gtest.h>

#include <cstdlib>

#include "comm/launch.h"
#include "comm/mpi_comm.h"
#include "support/comm_cases.h"

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
