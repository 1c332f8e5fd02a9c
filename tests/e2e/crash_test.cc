// Twenty kills at random moments, each followed by --resume, end in the bits of an unbroken run.
#include <algorithm>
#include <chrono>
#include <map>
#include <random>
#include <thread>

#include "program.h"

namespace ng::e2e {
namespace {

using Seconds = std::chrono::duration<double>;

constexpr int kKills = 20;

// Everything that a resume must restore: delayed scales, draws of stochastic rounding, moments.
const char* const kRecipe =
    "name = \"both\"\n"
    "inherit = \"fp8-delayed\"\n"
    "linear.wgrad.grad = { format=\"mxfp4\", rounding=\"stochastic\" }\n";

/// The files of a finished run that hold numbers: relative path -> bytes.
std::map<std::string, std::string> numbers_of(const fs::path& run) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(run)) {
    const std::string name = fs::relative(entry.path(), run).string();
    const bool ours = name.starts_with("model/") || name.starts_with("checkpoints/");
    if (entry.is_regular_file() && ours) files[name] = text_of(entry.path());
  }
  return files;
}

class Crash : public Program {
 protected:
  Crash() { write_text(path("both.toml"), kRecipe); }

  /// Checkpoints after every step: many of the kills find one being written.
  [[nodiscard]] static std::vector<std::string> train(const std::string& out) {
    return {"train",
            "tiny.toml",
            "--out",
            out,
            "--recipe",
            "both.toml",
            "--set",
            "train.steps=20",
            "--resume",
            "--set",
            "train.checkpoint_every=1",
            "--set",
            "train.validate_every=5"};
  }

  /// One more run of the loop. True where it was killed before it ended.
  [[nodiscard]] bool killed_after(Seconds delay) const {
    Process process(train("run"), folder_);
    std::this_thread::sleep_for(delay);
    process.send(SIGKILL);
    const Result result = process.wait();
    EXPECT_TRUE(result.code == 0 || result.code == 128 + SIGKILL) << result.err;
    return result.code != 0;
  }

  void expect_end_of(const std::map<std::string, std::string>& want) const {
    const std::map<std::string, std::string> have = numbers_of(path("run"));
    ASSERT_EQ(have.size(), want.size());
    for (const auto& [name, bytes] : want) {
      ASSERT_TRUE(have.contains(name)) << name;
      ASSERT_TRUE(have.at(name) == bytes) << name << " differs";
    }
    for (const auto& entry : fs::recursive_directory_iterator(path("run")))
      EXPECT_EQ(entry.path().filename().string().find(".tmp-"), std::string::npos) << entry.path();
  }
};

TEST_F(Crash, KilledTwentyTimesItEndsInTheSameBits) {
  const auto start = std::chrono::steady_clock::now();
  (void)run(train("whole"));
  const Seconds whole = std::chrono::steady_clock::now() - start;
  const std::map<std::string, std::string> want = numbers_of(path("whole"));
  ASSERT_TRUE(want.contains("model/model.safetensors"));
  ASSERT_TRUE(want.contains("checkpoints/step-00000020/state.safetensors"));
  std::minstd_rand random(20);  // its sequence is the same everywhere
  int kills = 0;
  for (int runs = 0; kills < kKills; ++runs) {
    ASSERT_LT(runs, 3 * kKills) << "too many runs end before they are killed";
    const double share = static_cast<double>(random()) / static_cast<double>(random.max());
    if (killed_after(0.6 * share * whole)) {
      ++kills;
      continue;
    }
    expect_end_of(want);
    fs::remove_all(path("run"));
  }
  const Result last = run(train("run"));
  EXPECT_EQ(last.code, 0) << last.err;
  EXPECT_EQ(last.err.find("damaged"), std::string::npos) << last.err;
  expect_end_of(want);
}

}  // namespace
}  // namespace ng::e2e
