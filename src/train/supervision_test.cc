// What a supervisor makes of the end of a job.
#include "train/supervision.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace ng {
namespace {

using Ranks = std::optional<int>;

TEST(Verdict, FollowsTheExitCode) {
  EXPECT_EQ(verdict_on({.code = 0}), Verdict::done);
  EXPECT_EQ(verdict_on({.code = 2, .has_trained = true}), Verdict::failed);
  for (const int signal : {1, 2, 10, 15})
    EXPECT_EQ(verdict_on({.code = 128 + signal}), Verdict::stopped) << signal;
  for (const int signal : {6, 9, 11})
    EXPECT_EQ(verdict_on({.code = 128 + signal}), Verdict::lost) << signal;
  EXPECT_EQ(verdict_on({.code = 3, .said = true}), Verdict::lost) << "what a watchdog says";
  EXPECT_EQ(verdict_on({.code = 213}), Verdict::lost) << "mpirun, of a host";
  EXPECT_EQ(verdict_on({.code = 143, .was_killed = true}), Verdict::lost);
}

TEST(Verdict, WhatTheProgramSaysWouldComeAgain) {
  EXPECT_EQ(verdict_on({.code = 1, .said = true}), Verdict::failed);
  EXPECT_EQ(verdict_on({.code = 1, .said = true, .has_trained = true}), Verdict::failed);
  EXPECT_EQ(verdict_on({.code = 1}), Verdict::failed) << "mpirun could not start it";
  EXPECT_EQ(verdict_on({.code = 1, .has_trained = true}), Verdict::lost);
}

TEST(Verdict, NamesSignals) {
  EXPECT_EQ(text_of(JobEnd{.code = 137}), "a rank was ended by signal 9 (Killed)");
  EXPECT_EQ(text_of(JobEnd{.code = 137, .was_killed = true}),
            "mpirun was ended by signal 9 (Killed)");
  EXPECT_EQ(text_of(JobEnd{.code = 3}), "a rank did not answer");
  EXPECT_EQ(text_of(JobEnd{.code = 213}), "mpirun ended with exit code 213");
}

TEST(RanksLeft, AreOneFewerThatCanShareTheBatch) {
  RanksLeft left(12, 4, 1, "");
  for (const int next : {4, 3, 2, 1, 1}) {
    ASSERT_EQ(left.next(100), Ranks(next));
    left.lose(next, 100);
  }
  RanksLeft odd(8, 4, 1, "");  // three are left, of which two go on and one is spare
  for (const int next : {4, 2, 2, 1}) {
    ASSERT_EQ(odd.next(100), Ranks(next));
    odd.lose(next, 100);
  }
}

TEST(RanksLeft, StayAtTheLeast) {
  RanksLeft all(12, 4, 4, "");
  all.lose(4, 4);
  EXPECT_EQ(all.next(4), Ranks(4));
  EXPECT_EQ(all.next(3), Ranks());
  RanksLeft some(12, 6, 5, "");  // five cannot share twelve
  some.lose(6, 6);
  EXPECT_EQ(some.next(6), Ranks(6));
}

TEST(RanksLeft, FollowTheHostsThatAnswer) {
  RanksLeft left(12, 6, 1, "");
  left.lose(6, 4);
  EXPECT_EQ(left.next(4), Ranks(4));
  EXPECT_EQ(left.next(6), Ranks(6)) << "the host is back";
  left.lose(6, 6);
  EXPECT_EQ(left.next(6), Ranks(4)) << "a rank of it died";
  EXPECT_EQ(left.next(0), Ranks());
}

TEST(RanksLeft, NoneCanShareTheBatch) {
  EXPECT_THROW(RanksLeft(7, 6, 2, "--ranks"), Error);
  EXPECT_EQ(RanksLeft(7, 6, 1, "--ranks").next(6), Ranks(1));
}

TEST(FailuresInARow, AreThoseWithoutANewerCheckpoint) {
  FailuresInARow failures(2);
  EXPECT_FALSE(failures.are_too_many(0));
  EXPECT_FALSE(failures.are_too_many(0));
  EXPECT_FALSE(failures.are_too_many(40)) << "one since step 40";
  EXPECT_FALSE(failures.are_too_many(40));
  EXPECT_TRUE(failures.are_too_many(40));
  EXPECT_EQ(failures.count(), 3);
  EXPECT_TRUE(FailuresInARow(0).are_too_many(7)) << "none is forgiven";
}

}  // namespace
}  // namespace ng
