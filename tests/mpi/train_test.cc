// `train` by mpirun: the bits of one process, a rank that dies, fewer ranks that go on.
#include <cstdio>

#include "base/json.h"
#include "data/npy_header.h"
#include "mpi/program_of_ranks.h"
#include "mpi/tiny_run.h"

namespace ng::e2e {
namespace {

class TrainByRanks : public ProgramOfRanks {
 protected:
  void SetUp() override {
    ProgramOfRanks::SetUp();
    if (!IsSkipped()) write_tiny_texts(folder_);
  }

  /// A run of 12 micro-batches a step.
  void write_run(int steps) const {
    write_tiny_run(path("run.toml"), {.steps = steps, .micros_of_rank = 12});
  }
  [[nodiscard]] static std::string words(int ranks, const std::string& more = "") {
    return fmt::format("train run.toml --set train.accumulate={} --out run {}", 12 / ranks, more);
  }
  /// How a job ended of which one rank got a signal.
  struct End {
    int code = 0, seconds = 0;  ///< exit code of mpirun; since the signal
  };
  /// Starts `words` on so many ranks and, when there is a checkpoint, sends `signal` to the second
  /// of mpirun's children. What the job writes to standard error is in `err`. Killed after a
  /// minute.
  [[nodiscard]] End end_by_signal(const char* signal, int ranks, const std::string& words) const {
    write_text(
        path("script"),
        fmt::format("{} -n {} '{}' {} >out 2>err &\n"
                    "job=$!\n"
                    "until ls -d run/checkpoints/step-*[0-9] >ls 2>ls.err || ! kill -0 $job;"
                    " do sleep 0.05; done\n"
                    "kill -{} $(grep -ls \"^PPid:.$job$\" /proc/[0-9]*/status | cut -d/ -f3 |"
                    " sed -n 2p)\n"
                    "begin=$(date +%s); wait $job; code=$?\n"
                    "echo $code $(($(date +%s) - begin))\n",
                    std::getenv("NG_MPIRUN"), ranks, std::getenv("NG_PROGRAM"), words, signal));
    (void)std::system(
        fmt::format("cd '{}' && timeout -k 1 60 bash script >printed", folder_.string()).c_str());
    const std::string printed = text_of(path("printed"));
    End end;
    EXPECT_EQ(std::sscanf(printed.c_str(), "%d %d", &end.code, &end.seconds), 2) << printed;
    return end;
  }
};

TEST_F(TrainByRanks, EndsInTheBitsOfOneProcess) {
  write_run(4);
  const Result one = run({"train", "run.toml", "--out", "one"});
  ASSERT_EQ(one.code, 0) << one.err;
  for (const int ranks : {2, 3}) {
    fs::remove_all(path("run"));
    const Result many = mpirun(ranks, words(ranks));
    ASSERT_EQ(many.code, 0) << many.err;
    EXPECT_TRUE(weights("run") == weights("one")) << ranks;
    // Rank 0 alone writes to the terminal.
    EXPECT_EQ(many.out.find("validation loss"),
              many.out.rfind("validation loss", std::string::npos))
        << many.out;
    EXPECT_TRUE(lines_of_program(many.err).empty()) << many.err;
  }
}

TEST_F(TrainByRanks, WhereARankIsKilledTheJobEndsAndFewerGoOn) {
  write_run(200);
  ASSERT_EQ(run({"train", "run.toml", "--out", "one"}).code, 0);
  const Json plan_of_one = Json::parse(run({"train", "run.toml", "--json-plan"}).out);
  const End end = end_by_signal("KILL", 3, words(3));
  EXPECT_NE(end.code, 0);
  EXPECT_LE(end.seconds, 10);
  EXPECT_FALSE(fs::exists(path("run/model")));

  const Result planned = mpirun(2, words(3, "--resume --json-plan"));
  ASSERT_EQ(planned.code, 0) << planned.err;
  const Json plan = Json::parse(planned.out);
  EXPECT_EQ(plan["tokens_per_step"], plan_of_one["tokens_per_step"]);
  EXPECT_NE(plan["notes"].dump().find("train.accumulate = 4 is taken as 6"), std::string::npos)
      << plan["notes"];
  const Result unequal = mpirun(5, words(3, "--resume --json-plan"));
  EXPECT_EQ(unequal.code, 1);
  EXPECT_NE(unequal.err.find("12 micro-batches, which 5 ranks cannot share equally"),
            std::string::npos)
      << unequal.err;

  const Result resumed = mpirun(2, words(3, "--resume"));  // the global batch stays by itself
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_NE(resumed.err.find("note: --set train.accumulate=4: train.accumulate = 4 is taken as 6"),
            std::string::npos)
      << resumed.err;
  EXPECT_TRUE(weights("run") == weights("one"));
}

TEST_F(TrainByRanks, ARankThatIsStoppedIsNoticed) {
  write_run(100000);
  const End end = end_by_signal("STOP", 2, words(2, "--set train.watchdog=3"));
  EXPECT_EQ(end.code, 3) << "another rank was lost";
  EXPECT_LE(end.seconds, 15);
  const std::vector<std::string> lines = lines_of_program(text_of(path("err")));
  ASSERT_EQ(lines.size(), 1U) << "not the one that is stopped: " << text_of(path("err"));
  EXPECT_NE(lines.front().find("of 2 has waited 3 s in "), std::string::npos) << lines.front();
}

// The model of examples/quickstart.toml, of short sequences.
TEST_F(TrainByRanks, NeighboursDivideLayersAndOneProcessGoesOn) {
  write_text(path("run.toml"),
             "recipe = 'mxfp4-sr-rht'\nseed = 1\ndata.train = 'text.txt'\n"
             "model = { architecture='llama', layers=4, heads=4, width=256, ffn=768, context=32 }\n"
             "train = { steps=3, batch=4, warmup=1, checkpoint_every=1, threads=1,"
             " tensor_parallel=2 }\n");
  const Result four = mpirun(4, "train run.toml --set train.steps=2 --out run");
  ASSERT_EQ(four.code, 0) << four.err;
  EXPECT_NE(four.out.find("4 in groups of 2 that divide every layer, each group with 1 micro-batch "
                          "of a step; they send "),
            std::string::npos)
      << four.out;
  EXPECT_TRUE(fs::exists(path("run/model/model.safetensors")));
  const Result one = run({"train", "run.toml", "--set", "train.tensor_parallel=1", "--set",
                          "train.accumulate=2", "--out", "run", "--resume"});
  EXPECT_EQ(one.code, 0) << one.err;

  const Result wrong = mpirun(2, "train run.toml --set train.tensor_parallel=3 --out other");
  EXPECT_EQ(wrong.code, 1);
  const std::vector<std::string> lines = lines_of_program(wrong.err);
  ASSERT_EQ(lines.size(), 1u) << wrong.err;
  EXPECT_NE(lines.front().find("train.tensor_parallel: 3 of 2 ranks"), std::string::npos)
      << lines.front();
}

TEST_F(TrainByRanks, AnErrorIsSaidOnce) {
  write_run(4);
  const Result wrong = mpirun(3, "train run.toml --set train.lr=-1 --out run");
  EXPECT_EQ(wrong.code, 1);
  const std::vector<std::string> lines = lines_of_program(wrong.err);
  ASSERT_EQ(lines.size(), 1u) << wrong.err;
  EXPECT_NE(lines.front().find("train.lr"), std::string::npos) << lines.front();
  EXPECT_EQ(lines.front().find("rank"), std::string::npos) << lines.front();
  const Result other = mpirun(2, "train run.toml --set train.accumulate=5 --out run2");
  EXPECT_EQ(other.code, 0) << other.err;  // another global batch is another run
}

// Before and after ranks have met.
TEST_F(TrainByRanks, WhatAllRanksMeetIsSaidOnceWithoutARank) {
  write_run(4);
  const std::pair<const char*, int> cases[] = {{"train run.toml --wrong", 2},
                                               {"nosuch", 2},
                                               {"train missing.toml", 1},
                                               {"train run.toml --set data.train=none.txt", 1}};
  for (const auto& [words, code] : cases) {
    SCOPED_TRACE(words);
    const Result wrong = mpirun(3, words);
    EXPECT_EQ(wrong.code, code);
    const std::vector<std::string> lines = lines_of_program(wrong.err);
    ASSERT_EQ(lines.size(), 1u) << wrong.err;
    EXPECT_EQ(lines.front().find("rank"), std::string::npos) << lines.front();
  }
}

// Each rank in a folder of its own, as on hosts that share none.
TEST_F(TrainByRanks, WhatOneRankMeetsIsSaidWithItsRank) {
  write_run(4);
  fs::create_directory(path("1"));
  fs::copy_file(path("run.toml"), path("1/run.toml"));
  const auto said_of = [&](const std::string& words) -> std::string {
    const Result wrong = mpirun_command(
        2, fmt::format("sh -c 'test $OMPI_COMM_WORLD_RANK = 0 || cd 1; exec \"{}\" {}'",
                       std::getenv("NG_PROGRAM"), words));
    EXPECT_EQ(wrong.code, 1) << wrong.err;
    const std::vector<std::string> lines = lines_of_program(wrong.err);
    return lines.size() == 1 ? lines.front() : wrong.err;
  };
  const std::string text = said_of("train run.toml --out run");
  EXPECT_EQ(text.find("narrowgauge: rank 1: "), 0u) << text;
  EXPECT_NE(text.find("text.txt"), std::string::npos) << text;
  fs::remove(path("1/run.toml"));
  const std::string run_file = said_of("train run.toml --out run");
  EXPECT_EQ(run_file.find("narrowgauge: rank 1: run.toml: "), 0u) << run_file;
  EXPECT_FALSE(fs::exists(path("run")));
}

// Found while the run reads its batches, by one rank or by several.
TEST_F(TrainByRanks, AForeignIdIsSaidOnce) {
  write_run(4);
  std::string file = npy_header("<u2", 4000);
  for (int i = 0; i < 4000; ++i)
    file += i % 20 == 7 ? std::string("\xE7\x03", 2) : std::string("a\0", 2);
  write_text(path("t.npy"), file);
  const Result wrong = mpirun(2, "train run.toml --set data.train=t.npy --out run");
  EXPECT_EQ(wrong.code, 1);
  const std::vector<std::string> lines = lines_of_program(wrong.err);
  ASSERT_EQ(lines.size(), 1u) << wrong.err;
  EXPECT_NE(lines.front().find("t.npy: token "), std::string::npos) << lines.front();
  EXPECT_NE(lines.front().find(": id 999: ids below 256"), std::string::npos) << lines.front();
}

// One sequence for two ranks, whose model has a longer context.
TEST_F(TrainByRanks, AShortTextTrainsOrIsSaidOnce) {
  write_run(12);
  write_text(path("text.txt"), "nine text");
  const std::string command =
      "train run.toml --set train.steps=2 --set data.validation=text.txt --out run --set ";
  const Result trained = mpirun(2, command + "train.length=8");
  EXPECT_EQ(trained.code, 0) << trained.err;
  EXPECT_TRUE(fs::exists(path("run/model/model.safetensors")));
  fs::remove_all(path("run"));
  const Result wrong = mpirun(2, command + "train.length=9");
  EXPECT_EQ(wrong.code, 1);
  const std::vector<std::string> lines = lines_of_program(wrong.err);
  ASSERT_EQ(lines.size(), 1u) << wrong.err;
  EXPECT_NE(lines.front().find("9 tokens for training: at least 10"), std::string::npos)
      << lines.front();
  EXPECT_FALSE(fs::exists(path("run")));
}

TEST_F(TrainByRanks, FoldersThatDifferAreRefused) {
  write_run(4);
  const Result wrong = mpirun_command(
      2, fmt::format("sh -c 'exec \"{}\" train run.toml --out run$OMPI_COMM_WORLD_RANK'",
                     std::getenv("NG_PROGRAM")));
  EXPECT_EQ(wrong.code, 1);
  const std::vector<std::string> lines = lines_of_program(wrong.err);
  ASSERT_EQ(lines.size(), 1u) << wrong.err;
  EXPECT_EQ(
      lines.front(),
      "narrowgauge: rank 1: --out: \"run1\", not \"run0\" as rank 0's: the same on all ranks");
  EXPECT_FALSE(fs::exists(path("run0")));
}

}  // namespace
}  // namespace ng::e2e
