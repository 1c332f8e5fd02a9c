#include "base/threads.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"

namespace ng {
namespace {

TEST(ParallelFor, CallsEveryItemOnceWithAWorkerInRange) {
  for (const int threads : {1, 2, 3, 5}) {
    for (const int64_t items : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> calls(static_cast<size_t>(items));
      std::atomic<bool> in_range{true};
      parallel_for(Threads{threads}, items, [&](int64_t item, int worker) {
        ++calls[static_cast<size_t>(item)];
        if (worker < 0 || worker >= threads) in_range = false;
      });
      for (const auto& count : calls) EXPECT_EQ(count, 1);
      EXPECT_TRUE(in_range);
    }
  }
}

TEST(ParallelFor, NoTwoThreadsShareAWorker) {
  std::vector<std::atomic<int>> inside(3);
  std::atomic<bool> alone{true};
  for (int round = 0; round < 200; ++round)
    parallel_for(Threads{3}, 30, [&](int64_t, int worker) {
      auto& mine = inside[static_cast<size_t>(worker)];
      if (++mine != 1) alone = false;
      --mine;
    });
  EXPECT_TRUE(alone);
}

TEST(ParallelFor, WakesWorkersThatFellAsleep) {
  std::atomic<int64_t> sum{0};
  for (int round = 0; round < 20; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    parallel_for(Threads{3}, 10, [&](int64_t item, int) { sum += item; });
  }
  EXPECT_EQ(sum, 20 * 45);
}

TEST(ParallelFor, LosesNoJobInQuickSuccession) {
  std::atomic<int64_t> calls{0};
  for (int round = 0; round < 3000; ++round)
    parallel_for(Threads{3}, 3, [&](int64_t, int) { ++calls; });
  EXPECT_EQ(calls, 9000);
}

TEST(ParallelFor, RethrowsAndGoesOnWorking) {
  const auto fail = [](int64_t item, int) {
    if (item == 5) throw std::runtime_error("five");
  };
  for (const int threads : {1, 3})
    EXPECT_THROW(parallel_for(Threads{threads}, 10, fail), std::runtime_error);
  std::atomic<int> calls{0};
  parallel_for(Threads{3}, 10, [&](int64_t, int) { ++calls; });
  EXPECT_EQ(calls, 10);
}

TEST(ParallelFor, WorksInAForkedProcess) {
  std::atomic<int> calls{0};
  const auto count = [&](int64_t, int) { ++calls; };
  parallel_for(Threads{3}, 10, count);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);  // one that waits for threads that it does not have ends so
    parallel_for(Threads{3}, 10, count);
    ::_exit(calls == 20 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// A stack larger than the address space stands for limits on processes and memory.
TEST(ParallelFor, SaysWhichThreadCannotBeStartedAndGoesOn) {
  pthread_attr_t usual, huge;
  ASSERT_EQ(::pthread_getattr_default_np(&usual), 0);
  ASSERT_EQ(::pthread_getattr_default_np(&huge), 0);
  ASSERT_EQ(::pthread_attr_setstacksize(&huge, size_t{1} << 60), 0);
  std::atomic<int> calls{0};
  const auto count = [&](int64_t, int) { ++calls; };
  parallel_for(Threads{2}, 10, count);
  ASSERT_EQ(::pthread_setattr_default_np(&huge), 0);
  try {
    parallel_for(Threads{64}, 10, count);
    ADD_FAILURE() << "started";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("of 64 could be started"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("--threads"), std::string::npos);
  }
  ASSERT_EQ(::pthread_setattr_default_np(&usual), 0);
  parallel_for(Threads{8}, 10, count);
  EXPECT_EQ(calls, 20);
}

}  // namespace
}  // namespace ng
