// However a run is stopped, and on however many threads it goes on, it ends in the same bits.
#include <algorithm>

#include "program.h"

namespace ng::e2e {
namespace {

class Resume : public Program {
 protected:
  void expect_resume_refused(const std::vector<std::string>& flags, const std::string& what) {
    std::vector<std::string> args = {"train", "tiny.toml", "--out", "run", "--resume"};
    args.insert(args.end(), flags.begin(), flags.end());
    const Result result = run(args);
    EXPECT_EQ(result.code, 1) << what;
    EXPECT_NE(result.err.find("the same " + what), std::string::npos) << result.err;
  }
};

/// Steps enough that a signal finds the run at work.
const std::vector<std::string> kLong = {"--set", "train.steps=60", "--set",
                                        "train.checkpoint_every=7"};

std::vector<std::string> train(const std::string& out, std::vector<std::string> more = {}) {
  std::vector<std::string> args = {"train", "tiny.toml", "--out", out};
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

std::vector<std::string> operator+(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

bool has_stepped(const std::string& out) { return out.find("\nstep ") != std::string::npos; }

// The lines of metrics.jsonl without what a clock says.
std::vector<std::string> losses_of(const fs::path& metrics) {
  std::vector<std::string> lines;
  std::istringstream text(text_of(metrics));
  for (std::string line; std::getline(text, line);)
    if (const size_t at = line.find("\"loss\":");
        at != line.npos && line.find("\"event\"") == line.npos)
      lines.push_back(line.substr(at, line.find(',', at) - at));
  return lines;
}

TEST_F(Resume, ASignalFinishesTheStepAndSaysHowToGoOn) {
  (void)run_well(train("whole", kLong));
  ::signal(SIGHUP, SIG_DFL);
  for (const auto& [signal, code] : {std::pair{SIGINT, 130}, std::pair{SIGTERM, 143},
                                     std::pair{SIGHUP, 129}, std::pair{SIGUSR1, 138}}) {
    const std::string out = "run" + std::to_string(signal);
    Process process(train(out, kLong), folder_);
    process.read_until(has_stepped);
    process.send(signal);
    if (signal == SIGHUP) {
      ::usleep(1000);        // else the two are one
      process.send(signal);  // as a closed terminal does
    }
    const Result stopped = process.wait();
    ASSERT_EQ(stopped.code, code) << stopped.out << stopped.err;
    EXPECT_EQ(stopped.err, "");
    EXPECT_NE(stopped.out.find("stopped after step "), std::string::npos) << stopped.out;
    EXPECT_NE(stopped.out.find(" train tiny.toml --set train.steps=60 --set "
                               "train.checkpoint_every=7 --out " +
                               out + " --resume\n"),
              std::string::npos)
        << stopped.out;
    EXPECT_FALSE(fs::exists(path(out) / "model")) << "not finished";
    (void)run_well(train(out, kLong + std::vector<std::string>{"--resume"}));
    EXPECT_EQ(weights(out), weights("whole"));
    EXPECT_EQ(losses_of(path(out) / "metrics.jsonl"), losses_of(path("whole/metrics.jsonl")));
  }
}

// A text that looks beyond words is tokenized by one thread, for some seconds.
TEST_F(Resume, ASignalWhileTextsAreOpenedEndsAtOnce) {
  write_text(path("large.txt"), std::string(size_t{1} << 25, 'a'));
  Process process(
      train("run", {"--set", "data.train=large.txt", "--set",
                    "data.tokenizer=" NG_SOURCE_DIR "/tests/golden/tokenizers/gpt2.json"}),
      folder_);
  ::usleep(200'000);
  process.send(SIGINT);
  EXPECT_EQ(process.wait().code, 130);
  EXPECT_FALSE(fs::exists(path("run")));
}

TEST_F(Resume, CompareGoesOnAfterASignal) {
  const std::vector<std::string> args = {
      "compare", "tiny.toml", "--recipes", "fp32,mxfp4-all", "--seeds",
      "1",       "--out",     "out",       "--set",          "train.steps=60"};
  Process process(args, folder_);
  process.read_until([](const std::string& out) { return out.find("step 6:") != out.npos; });
  process.send(SIGINT);
  EXPECT_EQ(process.wait().code, 130);
  (void)run_well(args);
  EXPECT_TRUE(fs::exists(path("out/compare.csv")));
}

TEST_F(Resume, KilledAtAnyMomentItEndsInTheSameBits) {
  (void)run_well(train("whole", kLong));
  for (const int milliseconds : {0, 20, 60}) {
    Process process(train("run", kLong + std::vector<std::string>{"--resume"}), folder_);
    process.read_until(has_stepped);
    ::usleep(static_cast<useconds_t>(1000 * milliseconds));
    process.send(SIGKILL);
    (void)process.wait();
  }
  (void)run(train("run", kLong + std::vector<std::string>{"--resume"}));
  EXPECT_EQ(weights("run"), weights("whole"));
  EXPECT_EQ(losses_of(path("run/metrics.jsonl")), losses_of(path("whole/metrics.jsonl")));
  for (const auto& entry : fs::recursive_directory_iterator(path("run")))
    EXPECT_EQ(entry.path().filename().string().find(".tmp-"), std::string::npos) << entry.path();
}

TEST_F(Resume, AFinishedRunIsTidiedUp) {
  (void)run_well(train("run", {"--set", "train.keep_checkpoints=3"}));
  EXPECT_TRUE(fs::exists(path("run/checkpoints/step-00000004")));
  fs::remove(path("run/checkpoints/step-00000004/run.json"));  // as a kill leaves it
  (void)run_well(train("run", {"--resume"}));
  EXPECT_FALSE(fs::exists(path("run/checkpoints/step-00000004")));
  EXPECT_TRUE(fs::exists(path("run/checkpoints/step-00000008")));
}

TEST_F(Resume, ARunOfAnotherSeedOrModelIsRefused) {
  (void)run_well(train("run", {"--set", "train.steps=2"}));
  expect_resume_refused({"--set", "seed=2"}, "seed");
  expect_resume_refused({"--set", "model.layers=1"}, "model");
}

TEST_F(Resume, ThreadsAndRecomputeDoNotChangeABit) {
  (void)run_well(train("one", {"--threads", "1"}));
  (void)run_well(train("two", {"--threads", "2"}));
  (void)run_well(train("three", {"--threads", "3"}));
  (void)run_well(train("recompute", {"--set", "train.recompute=block"}));
  for (const char* other : {"two", "three", "recompute"}) {
    EXPECT_EQ(weights(other), weights("one")) << other;
    EXPECT_EQ(losses_of(path(other) / "metrics.jsonl"), losses_of(path("one/metrics.jsonl")));
  }
}

TEST_F(Resume, TwoProcessesDoNotShareAFolder) {
  Process first(train("run", {"--set", "train.steps=2000", "--set", "train.checkpoint_every=0"}),
                folder_);
  first.read_until(has_stepped);
  const Result second = run(train("run"));
  EXPECT_EQ(second.code, 1);
  EXPECT_NE(second.err.find("run"), std::string::npos) << second.err;
}

TEST_F(Resume, AClosedPipeDoesNotEndARun) {
  const std::string shell = "\"$NG_PROGRAM\" train tiny.toml --out run | head -n 1 > head.txt";
  ASSERT_EQ(std::system(("cd '" + folder_.string() + "' && " + shell + " 2> errors.txt").c_str()),
            0);
  EXPECT_TRUE(fs::exists(path("run/model/model.safetensors")));
}

}  // namespace
}  // namespace ng::e2e
