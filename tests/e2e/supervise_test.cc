// `supervise` before a stand-in for mpirun, which writes down how it is called and ends as the test
// says. tests/mpi has the same with ranks that train.
#include <algorithm>

#include "program.h"

namespace ng::e2e {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

class Supervise : public Program {
 protected:
  Supervise() { write_text(path("run.toml"), "data.train = 'tiny.txt'\ntrain.accumulate = 3\n"); }

  /// What the stand-in does after it has written its arguments, a line each call, into "calls";
  /// what it was asked to start on a host is $last, "true" where it only shall answer.
  void write_mpirun(const std::string& script) const {
    write_text(path("mpirun"),
               "#!/bin/sh\n[ \"$1\" = --version ] && exit 0\n"
               "for last; do :; done\n"
               "[ $last = true ] || echo \"$@\" >>calls\n" +
                   script + "\n");
    fs::permissions(path("mpirun"), fs::perms::owner_all);
  }
  [[nodiscard]] std::vector<std::string> words(const std::vector<std::string>& more) const {
    std::vector<std::string> words = {"supervise", "--mpirun", path("mpirun").string() + " -x A",
                                      "--out",     "run",      "run.toml"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  [[nodiscard]] Result supervise(const std::vector<std::string>& more) const {
    return run(words(more));
  }
  /// Of each call, with the program's path as PROGRAM.
  [[nodiscard]] std::vector<std::string> calls() const {
    std::vector<std::string> calls = lines_of(text_of(path("calls")));
    const std::string program = fs::canonical(std::getenv("NG_PROGRAM")).string();
    for (std::string& call : calls)
      if (const size_t at = call.find(program); at != call.npos)
        call.replace(at, program.size(), "PROGRAM");
    return calls;
  }
  /// Its own lines.
  [[nodiscard]] static std::vector<std::string> said(const Result& result) {
    std::vector<std::string> said;
    for (const std::string& line : lines_of(result.err))
      if (line.starts_with("narrowgauge: supervise: ")) said.push_back(line.substr(24));
    return said;
  }
  /// Until the file is there and not empty; the text.
  [[nodiscard]] std::string wait_for(const std::string& name) const {
    while (text_of(path(name)).empty()) ::usleep(1000);
    return text_of(path(name));
  }
  /// A process that has ended may wait for its parent to hear of it.
  static bool is_running(pid_t process) {
    const std::string stat = text_of("/proc/" + std::to_string(process) + "/stat");
    return !stat.empty() && stat.find(") Z ") == stat.npos;
  }
};

TEST_F(Supervise, GoesOnWithOneRankFewerAtTheSameGlobalBatch) {
  write_mpirun("kill -9 $$");
  const Result result = supervise({"--ranks", "4", "--max-restarts", "2", "--threads", "1"});
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(calls(),
            (std::vector<std::string>{
                "-x A -n 4 PROGRAM train run.toml --threads 1 --out run",
                "-x A -n 3 PROGRAM train run.toml --threads 1 --set train.accumulate=4 --out run "
                "--resume",
                "-x A -n 2 PROGRAM train run.toml --threads 1 --set train.accumulate=6 --out run "
                "--resume"}));
  const std::vector<std::string> lines = said(result);
  ASSERT_EQ(lines.size(), 3U) << result.err;
  EXPECT_EQ(lines[0],
            "mpirun was ended by signal 9 (Killed); going on from step 0 with 3 ranks, each with 4 "
            "micro-batches of a step");
  EXPECT_EQ(lines[1],
            "mpirun was ended by signal 9 (Killed); going on from step 0 with 2 ranks, each with 6 "
            "micro-batches of a step");
  EXPECT_TRUE(
      lines[2].starts_with("mpirun was ended by signal 9 (Killed); that is failure 3 in a "
                           "row without a newer checkpoint: to go on from step 0: "))
      << lines[2];
  EXPECT_TRUE(lines[2].ends_with(" --threads 1 --out run --resume")) << lines[2];
}

TEST_F(Supervise, NewCheckpointsForgiveFailures) {
  write_mpirun(
      "n=$(wc -l <calls); mkdir -p run/checkpoints/step-0000000$n\n"
      "[ $n = 6 ] && exit 0; exit 137");
  const Result result = supervise({"--ranks", "2", "--min-ranks", "2", "--max-restarts", "1"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(calls().size(), 6U);
  for (const std::string& call : calls()) EXPECT_NE(call.find(" -n 2 "), call.npos) << call;
  EXPECT_EQ(said(result).back(),
            "a rank was ended by signal 9 (Killed); going on from step 5 with 2 ranks, each with 3 "
            "micro-batches of a step");
}

TEST_F(Supervise, WhatTheProgramRefusesIsNotStartedAgain) {
  write_mpirun("echo 'narrowgauge: rank 0: text.txt: no such file' >&2; exit 1");
  const Result refused = supervise({"--ranks", "4"});
  EXPECT_EQ(refused.code, 1);
  EXPECT_EQ(calls().size(), 1U);
  EXPECT_EQ(refused.err,
            "narrowgauge: rank 0: text.txt: no such file\n"
            "narrowgauge: supervise: not started again: it would fail as before\n");

  write_mpirun("echo 'There are not enough slots' >&2; exit 1");
  EXPECT_EQ(supervise({"--ranks", "4"}).code, 1);
  EXPECT_EQ(calls().size(), 2U);

  write_mpirun(
      "echo 'narrowgauge: note: all is well' >&2; mkdir -p run; echo >run/metrics.jsonl\n"
      "[ $(wc -l <calls) = 3 ] || exit 0; exit 1");
  EXPECT_EQ(supervise({"--ranks", "4"}).code, 0);
  EXPECT_EQ(calls().size(), 4U) << "mpirun failed in the midst of training";
}

TEST_F(Supervise, HostsThatAnswerGoOn) {
  write_text(path("hosts"), "a slots=2\nb slots=2 # far\nc slots=2\n");
  write_mpirun(
      "[ $last = true ] && { [ $4 != b:1 ]; exit; }\n"
      "[ $(wc -l <calls) = 2 ] || exit 213");
  const Result result = supervise({"--hostfile", "hosts", "--set", "train.accumulate=2"});
  EXPECT_EQ(result.code, 0) << result.err;
  ASSERT_EQ(calls().size(), 2U);
  EXPECT_TRUE(calls()[0].starts_with("-x A --host a:2,b:2,c:2 -n 6 ")) << calls()[0];
  EXPECT_TRUE(calls()[1].starts_with("-x A --host a:2,c:2 -n 4 ")) << calls()[1];
  EXPECT_NE(calls()[1].find("--set train.accumulate=2 --set train.accumulate=3 "),
            std::string::npos)
      << calls()[1];
  EXPECT_EQ(
      said(result).front(),
      "mpirun ended with exit code 213; b does not answer; going on from step 0 with 4 ranks, "
      "each with 3 micro-batches of a step");
}

TEST_F(Supervise, TooFewHostsEndIt) {
  write_text(path("hosts"), "a slots=2\nb slots=2\nc\n");
  write_mpirun("[ $last = true ] && { [ $4 = c:1 ]; exit; }\nexit 213");
  const Result result = supervise({"--hostfile", "hosts", "--ranks", "4", "--min-ranks", "2"});
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(calls().size(), 1U);
  EXPECT_TRUE(said(result).front().starts_with(
      "mpirun ended with exit code 213; a, b do not answer; the others have 1 slot, too few for "
      "--min-ranks 2: to go on from step 0: "))
      << result.err;
}

TEST_F(Supervise, AWishToStopGoesOnToTheRanks) {
  write_mpirun(
      "trap 'touch heard; exit 138' USR1; echo $$ >pid\n"
      "while :; do sleep 0.01; done");
  Process process(words({"--ranks", "2"}), folder_);
  (void)wait_for("pid");
  process.send(SIGINT);
  const Result result = process.wait();
  EXPECT_EQ(result.code, 130) << result.err;
  EXPECT_TRUE(fs::exists(path("heard")));
  EXPECT_EQ(calls().size(), 1U);
  const std::vector<std::string> lines = lines_of(result.err);
  ASSERT_EQ(lines.size(), 2U) << result.err;
  EXPECT_EQ(lines[0], "narrowgauge: supervise: stopped; to go on:");
  EXPECT_TRUE(lines[1].ends_with(" supervise --ranks 2 --mpirun '" + path("mpirun").string() +
                                 " -x A' run.toml --out run --resume"))
      << lines[1];
}

TEST_F(Supervise, StopsWhileItLooksForHosts) {
  write_text(path("hosts"), "a slots=2\nb slots=2\n");
  write_mpirun("[ $last = true ] && { echo $$ >asked; exec sleep 1000; }\nexit 213");
  Process process(words({"--hostfile", "hosts"}), folder_);
  (void)wait_for("asked");
  process.send(SIGTERM);
  const Result result = process.wait();
  EXPECT_EQ(result.code, 143) << result.err;
  EXPECT_EQ(said(result), std::vector<std::string>{"stopped; to go on:"});
  EXPECT_FALSE(is_running(std::stoi(text_of(path("asked")))));
}

TEST_F(Supervise, LeavesNothingRunning) {
  write_mpirun("sleep 1000 & echo $! >left; kill -9 $$");
  (void)supervise({"--ranks", "2", "--max-restarts", "0"});
  EXPECT_FALSE(is_running(std::stoi(text_of(path("left")))));

  write_mpirun("echo $$ >pid; exec sleep 1000");
  Process process(words({"--ranks", "2"}), folder_);
  const pid_t job = std::stoi(wait_for("pid"));
  process.send(SIGKILL);
  (void)process.wait();
  for (int tries = 0; is_running(job) && tries < 6000; ++tries) ::usleep(10'000);
  EXPECT_FALSE(is_running(job)) << "a minute after its supervisor was killed";
}

TEST_F(Supervise, StartsAProgramFromWhereItIsStarted) {
  write_mpirun("exit 0");
  fs::create_directory(path("bin"));
  fs::copy(path("mpirun"), path("bin/wrap"));
  for (const char* starter : {"./mpirun -x A", "bin/wrap -x A", "bin/../mpirun -x A"}) {
    const Result result =
        run({"supervise", "--ranks", "2", "--mpirun", starter, "--out", "run", "run.toml"});
    EXPECT_EQ(result.code, 0) << result.err;
  }
  EXPECT_EQ(calls().size(), 3U);
}

TEST_F(Supervise, RefusesInOneLine) {
  write_mpirun("exit 0");
  expect_refused(words({}), 2, {"--ranks or --hostfile", "supervise --help"});
  expect_refused(words({"--ranks", "2", "--min-ranks", "3"}), 1, {"--min-ranks: 3: at most the 2"});
  expect_refused(words({"--ranks", "2", "--set", "train.lr=-1"}), 1, {"--set train.lr=-1"});
  expect_refused(words({"--hostfile", "nowhere"}), 1, {"nowhere"});
  write_text(path("hosts"), "a slots=2\n");
  expect_refused(words({"--hostfile", "hosts", "--ranks", "3"}), 1,
                 {"--ranks: 3, but hosts has 2 slots"});
  expect_refused({"supervise", "--ranks", "2", "--mpirun", "no-mpirun", "run.toml"}, 1,
                 {"--mpirun: \"no-mpirun\": no such program"});
  expect_refused({"supervise", "--ranks", "2", "--mpirun", "./no-mpirun", "run.toml"}, 1,
                 {"--mpirun: \"./no-mpirun\": no such program"});
  EXPECT_TRUE(calls().empty());
}

}  // namespace
}  // namespace ng::e2e
