// What the environment says of how a process was started, as mpirun and srun set it.
#include "comm/launch.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "base/error.h"

namespace ng {
namespace {

class LaunchBy : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name :
         {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "PMI_SIZE",
          "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_PROCID", "RANK", "WORLD_SIZE",
          "MASTER_ADDR", "MASTER_PORT", "LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK",
          "TORCHELASTIC_RUN_ID"})
      ::unsetenv(name);
  }
  static void set(const char* name, const char* value) { ::setenv(name, value, 1); }
  static void expect(int rank, int ranks, bool can_meet) {
    const Launch started = launch();
    EXPECT_EQ(started.rank, rank);
    EXPECT_EQ(started.ranks, ranks);
    EXPECT_EQ(started.can_meet, can_meet);
  }
};

TEST_F(LaunchBy, APlainStartIsAlone) {
  expect(0, 1, true);
  EXPECT_TRUE(has_met());
  EXPECT_EQ(launch().starter, "");
}

TEST_F(LaunchBy, MpirunOfOneRankIsNoPlainStart) {
  set("OMPI_COMM_WORLD_SIZE", "1");
  set("OMPI_COMM_WORLD_RANK", "0");
  expect(0, 1, true);
  EXPECT_EQ(launch().starter, kMpirun);
}

TEST_F(LaunchBy, Torchrun) {
  set("RANK", "2");
  set("WORLD_SIZE", "4");
  expect(0, 1, true);  // of a program that knows its rank and no place to meet
  set("MASTER_ADDR", "host");
  set("MASTER_PORT", "29500");
  expect(2, 4, true);
  EXPECT_EQ(launch().starter, kTorchrun);
  EXPECT_EQ(launch().local_rank, 0);
  set("LOCAL_RANK", "1");
  EXPECT_EQ(launch().local_rank, 1);
  set("OMPI_COMM_WORLD_SIZE", "1");
  expect(0, 1, true);
}

// Each worker has the words of srun's one task, too.
TEST_F(LaunchBy, TorchrunInAStepOfSlurm) {
  set("SLURM_STEP_NUM_TASKS", "1");
  set("SLURM_LOCALID", "0");
  set("PMIX_RANK", "0");
  set("RANK", "3");
  set("LOCAL_RANK", "1");
  set("WORLD_SIZE", "4");
  set("MASTER_ADDR", "host");
  set("MASTER_PORT", "29500");
  expect(0, 1, true);
  set("TORCHELASTIC_RUN_ID", "none");
  expect(3, 4, true);
  EXPECT_EQ(launch().local_rank, 1);
}

TEST_F(LaunchBy, ABatchScriptOfSeveralTasksIsAlone) {
  set("SLURM_NTASKS", "4");
  set("SLURM_PROCID", "0");
  expect(0, 1, true);
}

TEST_F(LaunchBy, SrunWithPmix) {
  set("SLURM_NTASKS", "8");
  set("SLURM_STEP_NUM_TASKS", "4");
  set("SLURM_PROCID", "3");
  set("PMIX_RANK", "3");
  expect(3, 4, true);
  EXPECT_EQ(launch().starter, kSrun);
  EXPECT_FALSE(has_met());
}

TEST_F(LaunchBy, MpirunInAStepOfSlurm) {
  set("SLURM_STEP_NUM_TASKS", "2");
  set("SLURM_PROCID", "1");
  set("OMPI_COMM_WORLD_SIZE", "3");
  set("OMPI_COMM_WORLD_RANK", "2");
  expect(2, 3, true);
  EXPECT_EQ(launch().starter, kMpirun);
}

TEST_F(LaunchBy, SrunOfOneTaskIsAlone) {
  set("SLURM_STEP_NUM_TASKS", "1");
  set("SLURM_PROCID", "0");
  expect(0, 1, true);
}

// Each would be a run of its own in the folder of the others.
TEST_F(LaunchBy, SrunWithoutPmiIsRefused) {
  set("SLURM_STEP_NUM_TASKS", "2");
  set("SLURM_PROCID", "1");
  expect(1, 2, false);
  try {
    (void)world();
    FAIL() << "it met the others";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "srun: 2 tasks were started that do not know of one another: "
                 "srun --mpi=pmix -n 2 ..., or one process: srun -n 1 ...");
  }
  EXPECT_EQ(failure_of_all("x: is wrong"), "x: is wrong") << "and rank 0 says it";
}

}  // namespace
}  // namespace ng
