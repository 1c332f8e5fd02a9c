// `supervise` with ranks that train: some are killed, it goes on to the bits of an unbroken run.
#include <algorithm>
#include <cstdio>

#include "mpi/program_of_ranks.h"
#include "mpi/tiny_run.h"

namespace ng::e2e {
namespace {

// Functions of the scripts: what processes a process has started, the newest checkpoint, and the
// second rank of the job of supervisor $s.
constexpr const char* kShell = R"sh(
children() { grep -ls "^PPid:.$1$" /proc/[0-9]*/status | cut -d/ -f3; }
newest() { ls run/checkpoints 2>/dev/null | grep '^step-[0-9]*$' | tail -n 1; }
alive() { kill -0 $s 2>/dev/null; }
await() { until "$@" || ! alive; do sleep 0.05; done; }
is_newer() { [ "$(newest)" != "$old" ]; }
has_said() { [ "$(grep -c '; going on from step' err)" = $1 ]; }
a_rank() { for job in $(children $s); do children $job | sed -n 2p; done; }
)sh";

class SuperviseRanks : public ProgramOfRanks {
 protected:
  void SetUp() override {
    ProgramOfRanks::SetUp();
    if (!IsSkipped()) write_tiny_texts(folder_);
  }
  /// Runs `body` of a shell script in which supervisor $s trains with `flags`; what it prints. It
  /// is killed after a minute.
  [[nodiscard]] std::string script(const std::string& flags, const std::string& body) const {
    write_text(
        path("script"),
        fmt::format("'{}' supervise --mpirun '{}' {} --out run >>out 2>>err &\ns=$!\n{}{}",
                    std::getenv("NG_PROGRAM"), std::getenv("NG_MPIRUN"), flags, kShell, body));
    (void)std::system(
        fmt::format("cd '{}' && timeout -k 1 60 bash script >said", folder_.string()).c_str());
    return text_of(path("said"));
  }
  [[nodiscard]] std::vector<std::string> lines() const {
    std::vector<std::string> lines;
    for (const std::string& line : lines_of_program(text_of(path("err"))))
      if (line.starts_with("narrowgauge: supervise: ")) lines.push_back(line);
    return lines;
  }
};

TEST_F(SuperviseRanks, KilledRanksAreLeftOffAndTheBitsStay) {
  write_tiny_run(path("run.toml"), {.steps = 200, .micros_of_rank = 4});
  ASSERT_EQ(run({"train", "run.toml", "--set", "train.accumulate=12", "--out", "one"}).code, 0);
  const std::string code = script("--ranks 3 run.toml", R"sh(
for failures in 1 2; do
  old=$(newest)
  await is_newer
  kill -KILL $(a_rank)
  await has_said $failures
done
wait $s; echo $?
)sh");
  ASSERT_EQ(code, "0\n") << text_of(path("err"));
  EXPECT_TRUE(weights("run") == weights("one"));
  const std::vector<std::string> said = lines();
  ASSERT_EQ(said.size(), 2U) << text_of(path("err"));
  EXPECT_NE(said[0].find("a rank was ended by signal 9 (Killed); going on from step "),
            std::string::npos);
  EXPECT_TRUE(said[0].ends_with(" with 2 ranks, each with 6 micro-batches of a step")) << said[0];
  EXPECT_TRUE(said[1].ends_with(" with 1 rank, each with 12 micro-batches of a step")) << said[1];
}

TEST_F(SuperviseRanks, CtrlCLetsRanksSaveAndTheRunGoesOn) {
  write_tiny_run(path("run.toml"), {.steps = 200, .micros_of_rank = 6, .checkpoint_every = 0});
  ASSERT_EQ(run({"train", "run.toml", "--set", "train.accumulate=12", "--out", "one"}).code, 0);
  const std::string code = script("--ranks 2 run.toml", R"sh(
has_stepped() { grep -qs '"step":3,' run/metrics.jsonl; }
await has_stepped
kill -INT $s
wait $s; echo $?
)sh");
  ASSERT_EQ(code, "130\n") << text_of(path("err"));
  ASSERT_EQ(lines(), std::vector<std::string>{"narrowgauge: supervise: stopped; to go on:"});
  EXPECT_NE(text_of(path("out")).find("stopped after step "), std::string::npos)
      << "ranks finished their step";
  EXPECT_EQ(text_of(path("out")).find("to go on"), std::string::npos) << "it is said once";
  ASSERT_EQ(script("--ranks 2 run.toml --resume", "wait $s; echo $?\n"), "0\n")
      << text_of(path("err"));
  EXPECT_TRUE(weights("run") == weights("one"));
}

TEST_F(SuperviseRanks, ItsDeathEndsTheRanks) {
  write_tiny_run(path("run.toml"), {.steps = 100000, .micros_of_rank = 6});
  const std::string left = script("--ranks 2 run.toml", R"sh(
await is_newer
ranks=$(for job in $(children $s); do children $job; done)
{ kill -KILL $s; wait $s; } 2>wait.err
for i in $(seq 600); do
  kill -0 $ranks 2>/dev/null || break
  sleep 0.1
done
for rank in $ranks; do kill -0 $rank 2>/dev/null && echo $rank; done
echo "$(echo $ranks | wc -w) ranks"
)sh");
  EXPECT_EQ(left, "2 ranks\n") << "none is left";
}

TEST_F(SuperviseRanks, WhatRanksRefuseIsNotStartedAgain) {
  write_tiny_run(path("run.toml"), {.steps = 4, .micros_of_rank = 6});
  EXPECT_EQ(script("--ranks 2 --set data.train=nowhere.txt run.toml", "wait $s; echo $?\n"), "1\n");
  const std::vector<std::string> said = lines_of_program(text_of(path("err")));
  ASSERT_EQ(said.size(), 2U) << text_of(path("err"));
  EXPECT_NE(said[0].find("nowhere.txt"), std::string::npos) << said[0];
  EXPECT_EQ(said[1], "narrowgauge: supervise: not started again: it would fail as before");
}

}  // namespace
}  // namespace ng::e2e
