#include "comm/watchdog.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>

#include "comm/thread_ranks.h"

namespace ng {
namespace {

using std::chrono::milliseconds;

TEST(Watchdog, SaysWhereARankWaitsForOneThatDoesNotCome) {
  std::atomic<bool> seen = false;
  run_ranks(2, [&](Comm& comm) {
    if (comm.rank() == 1) {  // comes when the other has complained
      while (!seen) std::this_thread::sleep_for(milliseconds(1));
      comm.barrier();
      return;
    }
    std::string said;
    comm.note_step(11);
    {
      const Watchdog watchdog(comm, milliseconds(100), [&](const std::string& where) {
        said = where;
        seen = true;
      });
      comm.barrier();
    }
    EXPECT_NE(said.find("rank 0 of 2 has waited"), std::string::npos) << said;
    EXPECT_NE(said.find("in barrier, in step 12"), std::string::npos) << said;
  });
}

// What a rank does on its own is no waiting.
TEST(Watchdog, IsSilentWhileRanksWork) {
  run_ranks(2, [](Comm& comm) {
    std::atomic<bool> barks = false;
    {
      const Watchdog watchdog(comm, milliseconds(50), [&](const std::string&) { barks = true; });
      std::this_thread::sleep_for(milliseconds(200));
    }
    EXPECT_FALSE(barks);
    comm.barrier();
  });
}

}  // namespace
}  // namespace ng
