// Texts and disks at the edges: very short, uniform, binary, large; unwritable, full.
#include <sys/resource.h>

#include <algorithm>
#include <cstdint>

#include "base/json.h"
#include "program.h"

namespace ng::e2e {
namespace {

/// The last value of `key` in metrics.jsonl.
double last_metric(const fs::path& metrics, const std::string& key) {
  double last = -1;
  std::istringstream lines(text_of(metrics));
  for (std::string line; std::getline(lines, line);) last = Json::parse(line).value(key, last);
  return last;
}

class EdgeTexts : public Program {
 protected:
  [[nodiscard]] static std::vector<std::string> train(const std::string& text,
                                                      std::vector<std::string> settings = {}) {
    std::vector<std::string> args = {"train", "tiny.toml", "--out", "run"};
    settings.push_back("data.train=" + text);
    for (const std::string& setting : settings) args.insert(args.end(), {"--set", setting});
    return args;
  }

  /// Trains on a text and expects success, with nothing but text on the screen.
  void expect_trains(const std::string& content) const {
    write_text(path("text"), content);
    const std::string out = run_well(train("text"));
    const auto is_control = [](char c) {
      return (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') || c == 0x7f;
    };
    EXPECT_EQ(std::count_if(out.begin(), out.end(), is_control), 0) << out;
    EXPECT_FALSE(weights("run").empty());
    EXPECT_GT(last_metric(path("run/metrics.jsonl"), "val_loss"), 0);
  }

  /// Most bytes that the program had in memory at once.
  [[nodiscard]] int64_t peak_bytes(const std::vector<std::string>& args) const {
    const pid_t child = ::fork();
    if (child == 0) {
      const char* program = std::getenv("NG_PROGRAM");
      if (::chdir(folder_.c_str()) != 0) ::_exit(120);
      ::dup2(::open("/dev/null", O_WRONLY), 1);
      std::vector<char*> words = {const_cast<char*>(program)};
      for (const std::string& arg : args) words.push_back(const_cast<char*>(arg.c_str()));
      words.push_back(nullptr);
      ::execv(program, words.data());
      ::_exit(121);
    }
    int status = 0;
    rusage usage{};
    ::wait4(child, &status, 0, &usage);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return int64_t{usage.ru_maxrss} * 1024;
  }
};

TEST_F(EdgeTexts, TenBytesAreOneClearErrorAndNothingIsWritten) {
  write_text(path("ten.txt"), "ten bytes!");
  expect_refused(train("ten.txt"), 1, {"ten.txt", "10 tokens", "at least 33"});
  EXPECT_FALSE(fs::exists(path("run")));
}

TEST_F(EdgeTexts, OneRepeatedLetterIsLearnedWhole) {
  write_text(path("a.txt"), std::string(5000, 'a'));
  (void)run_well(train("a.txt", {"train.steps=40", "train.lr=1e-2"}));
  const double loss = last_metric(path("run/metrics.jsonl"), "loss");
  EXPECT_GE(loss, 0);
  EXPECT_LT(loss, 0.01);
  EXPECT_LT(last_metric(path("run/metrics.jsonl"), "val_loss"), 0.01);
}

TEST_F(EdgeTexts, BinaryBytesTrain) {
  std::string bytes;
  uint32_t state = 1;
  for (int i = 0; i < 20'000; ++i) {
    state = state * 1664525u + 1013904223u;
    bytes.push_back(static_cast<char>(state >> 24));
  }
  expect_trains(bytes);
}

TEST_F(EdgeTexts, ZeroBytesTrain) { expect_trains(std::string(3000, '\0')); }

TEST_F(EdgeTexts, ATextWithoutANewlineTrains) { expect_trains(text_of(path("tiny.txt")) + "end"); }

TEST_F(EdgeTexts, AsShortAsOneSequenceTrains) {
  write_text(path("short.txt"), std::string(33, 'b'));
  (void)run_well(train("short.txt", {"data.validation=0"}));
}

TEST_F(EdgeTexts, ShorterThanTheContextTrains) {
  for (const char* name : {"short.txt", "other.txt"}) write_text(path(name), "nine text");
  (void)run_well(train("short.txt", {"data.validation=other.txt", "train.length=8"}));
  EXPECT_FALSE(weights("run").empty());
}

TEST_F(EdgeTexts, ALargeTextTakesNoMemory) {
  {
    std::string piece;
    while (piece.size() < 1'000'000) piece += text_of(path("tiny.txt"));
    std::ofstream file(path("large.txt"), std::ios::binary);
    for (int i = 0; i < 50; ++i) file << piece;
  }
  const auto short_run = [](const std::string& text, const std::string& validation) {
    std::vector<std::string> args =
        train(text, {"train.steps=3", "train.validate_every=0", "data.validation=" + validation});
    args[3] = text + ".run";
    return args;
  };
  const int64_t small = peak_bytes(short_run("tiny.txt", "0.5"));
  const int64_t large = peak_bytes(short_run("large.txt", "0.00003"));
  EXPECT_GT(small, 1'000'000);
  // Promised are 60 MB; a text that were mapped or read as a whole would show with 50.
  EXPECT_LT(large - small, 20'000'000) << small << " " << large;
}

TEST_F(EdgeTexts, AFolderThatCannotBeMadeIsNamed) {
  std::vector<std::string> args = train("tiny.txt");
  args[3] = "/proc/narrowgauge-run";
  expect_refused(args, 1, {"/proc/narrowgauge-run", "cannot create"});
}

TEST_F(EdgeTexts, AFolderWithoutWritePermissionIsNamed) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  fs::create_directory(path("locked"));
  fs::permissions(path("locked"), fs::perms::owner_read | fs::perms::owner_exec);
  std::vector<std::string> args = train("tiny.txt");
  args[3] = "locked/run";
  expect_refused(args, 1, {"locked/run", "Permission denied"});
}

TEST_F(EdgeTexts, AFullDiskLeavesWholeCheckpointsToResumeFrom) {
  (void)run_well({"train", "tiny.toml", "--out", "whole"});
  // Two checkpoints of 1.2 MB and a report of 0.2 MB fit, the last of three does not.
  write_text(path("full.sh"),
             "mkdir small && mount -t tmpfs -o size=3100k none small 2> no_mount || exit 99\n"
             "\"$NG_PROGRAM\" train tiny.toml --out small/run > out.txt 2> errors.txt\n"
             "code=$?\n"
             "cp -r small/run run\n"
             "exit $code\n");
  const std::string command =
      "cd '" + folder_.string() + "' && unshare -rm sh full.sh 2> no_unshare";
  const int status = std::system(command.c_str());
  if (!fs::exists(path("errors.txt")))
    GTEST_SKIP() << "no small disk can be mounted here: " << text_of(path("no_unshare"))
                 << text_of(path("no_mount"));
  const std::string errors = text_of(path("errors.txt"));
  EXPECT_EQ(WEXITSTATUS(status), 1) << errors;
  EXPECT_NE(errors.find("small/run/checkpoints/step-00000012"), std::string::npos) << errors;
  EXPECT_NE(errors.find("No space left on device"), std::string::npos) << errors;
  EXPECT_EQ(std::count(errors.begin(), errors.end(), '\n'), 1) << errors;
  for (const auto& entry : fs::recursive_directory_iterator(path("run")))
    EXPECT_EQ(entry.path().filename().string().find(".tmp-"), std::string::npos) << entry.path();
  (void)run_well({"train", "tiny.toml", "--out", "run", "--resume"});
  EXPECT_EQ(weights("run"), weights("whole"));
}

}  // namespace
}  // namespace ng::e2e
