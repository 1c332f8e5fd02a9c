#include "comm/thread_ranks.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "support/comm_cases.h"

namespace ng {
namespace {

TEST(OneRank, DoesEverything) { comm_cases::everything(*one_rank()); }

class ThreadRanks : public ::testing::TestWithParam<int> {};

TEST_P(ThreadRanks, DoEverything) { run_ranks(GetParam(), comm_cases::everything); }

TEST_P(ThreadRanks, WaitAtABarrier) {
  std::atomic<int> before = 0;
  run_ranks(GetParam(), [&](Comm& comm) {
    if (comm.rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ++before;
    comm.barrier();
    EXPECT_EQ(before, GetParam());
  });
}

INSTANTIATE_TEST_SUITE_P(All, ThreadRanks, ::testing::Values(1, 2, 3, 4));

// The others wait in a primitive that needs all ranks.
TEST(ThreadRanks, AnErrorReleasesTheOthers) {
  std::atomic<int> released = 0;
  const auto body = [&](Comm& comm) {
    if (comm.rank() == 2) throw std::runtime_error("rank 2 fails");
    try {
      comm.barrier();
    } catch (const Error&) {
      ++released;
      throw;
    }
  };
  try {
    run_ranks(4, body);
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "rank 2 fails") << "not those of ranks that waited for it";
  }
  EXPECT_EQ(released, 3);
}

TEST(ThreadRanks, ARankThatReturnsEarlyReleasesWhoWaits) {
  try {
    run_ranks(3, [](Comm& comm) {
      const std::unique_ptr<Comm> part = comm.split(0);
      if (comm.rank() == 1) return;
      part->barrier();
    });
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("waits for rank 1, which has ended"),
              std::string::npos)
        << error.what();
  }
}

// What was sent before its sender ended arrives.
TEST(ThreadRanks, MessagesOutliveTheirSender) {
  run_ranks(2, [](Comm& comm) {
    comm_cases::Bytes bytes = comm_cases::message(0, 1, 10);
    if (comm.rank() == 0) return comm.send(Traffic::files, bytes, 1);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    comm_cases::Bytes in(10);
    comm.receive(in, 0);
    EXPECT_EQ(in, bytes);
  });
}

TEST(ThreadRanks, PiecesOfUnequalSizesAreADefect) {
  EXPECT_THROW(run_ranks(2,
                         [](Comm& comm) {
                           const std::vector<size_t> bytes(2, comm.rank() == 0 ? 1 : 2);
                           comm_cases::Bytes out(2 * bytes[0]), in(2 * bytes[0]);
                           comm.all_to_all(Traffic::files, out, bytes, in, bytes);
                         }),
               InternalError);
}

}  // namespace
}  // namespace ng
