// TensorBoard's own reader finds in a run's events what metrics.jsonl says, each step once, also
// where the run was resumed and where it was killed behind its last checkpoint.
#include "../e2e/program.h"
#include "base/json.h"
#include "base/program.h"

namespace ng::e2e {
namespace {

using TensorBoard = Program;

const std::vector<std::string> kTags = {
    "loss", "lr", "grad_norm", "tokens_per_second", "val_loss", "val_bits_per_byte"};

// {tag: [[step, value], ...]} by metrics.jsonl.
Json scalars_of(const fs::path& metrics) {
  Json scalars = Json::object();
  std::istringstream lines(text_of(metrics));
  for (std::string text; std::getline(lines, text);) {
    const Json line = Json::parse(text);
    for (const std::string& tag : kTags)
      if (line.contains(tag)) scalars[tag].push_back({line["step"], line[tag]});
  }
  return scalars;
}

TEST_F(TensorBoard, ReadsWhatMetricsSay) {
  std::vector<std::string> args = {"train", "tiny.toml",       "--out", "run",
                                   "--set", "train.steps=400", "--set", "train.checkpoint_every=7"};
  Process process(args, folder_);
  process.read_until([](const std::string& out) { return out.find("step  40/") != out.npos; });
  process.send(SIGKILL);
  ASSERT_EQ(process.wait().code, 128 + SIGKILL);
  args[5] = "train.steps=100";
  args.emplace_back("--resume");
  const Result resumed = run(args);
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  (void)run(args);  // a finished run that is resumed adds nothing

  const ProgramResult read =
      run_program({"python3", std::string(NG_SOURCE_DIR) + "/tests/tensorboard/read_events.py",
                   (fs::current_path() / "tensorboard-venv").string(), path("run").string()},
                  1 << 20);
  if (!read.found || read.exit_code == 77)
    GTEST_SKIP() << "needs tensorboard, or PyPI to install it: " << read.output;
  ASSERT_EQ(read.exit_code, 0) << read.output;
  const Json seen = Json::parse(read.output);
  const Json want = scalars_of(path("run/metrics.jsonl"));
  ASSERT_EQ(seen.size(), kTags.size()) << read.output;
  ASSERT_EQ(want["loss"].size(), 100u);
  for (const std::string& tag : kTags) {
    ASSERT_EQ(seen[tag].size(), want[tag].size()) << tag << seen[tag];
    for (size_t i = 0; i < want[tag].size(); ++i) {
      EXPECT_EQ(seen[tag][i][0], want[tag][i][0]) << tag;
      EXPECT_EQ(seen[tag][i][1].get<float>(), want[tag][i][1].get<float>()) << tag << i;
    }
  }
}

}  // namespace
}  // namespace ng::e2e
