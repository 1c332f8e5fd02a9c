// Preference training as users run it: the example on a tiny model, and what it refuses.
#include "base/json.h"
#include "program.h"

namespace ng::e2e {
namespace {

class Dpo : public Program {
 protected:
  Dpo() {
    fs::create_directory(path("examples"));
    for (const char* name : {"dpo.jsonl", "dpo.toml"})
      fs::copy_file(fs::path(NG_SOURCE_DIR) / "examples" / name,
                    path(std::string("examples/") + name));
    (void)run_well({"train", "tiny.toml", "--out", "runs/sft", "--set", "model.context=128"});
  }
  [[nodiscard]] static std::vector<std::string> train(std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"train", "examples/dpo.toml"});
    return more;
  }
  /// The lines of metrics.jsonl with a key.
  [[nodiscard]] std::vector<Json> lines_with(const char* key) const {
    std::vector<Json> found;
    std::istringstream lines(text_of(path("runs/dpo/metrics.jsonl")));
    for (std::string line; std::getline(lines, line);)
      if (Json json = Json::parse(line); json.contains(key)) found.push_back(std::move(json));
    return found;
  }
};

TEST_F(Dpo, TheExampleLearnsItsPairs) {
  const std::string said =
      run_well(train({"--set", "train.lr=3e-3", "--set", "train.steps=40", "--verbose"}));
  EXPECT_NE(said.find("33 pairs to train on, 11 to validate on"), std::string::npos) << said;
  EXPECT_NE(said.find("reference, bf16"), std::string::npos) << said;
  EXPECT_NE(said.find("roles       policy "), std::string::npos) << said;
  EXPECT_NE(said.find("  margin "), std::string::npos) << said;
  const std::vector<Json> steps = lines_with("rewards/margins");
  ASSERT_EQ(steps.size(), 40u);
  EXPECT_NEAR(steps.front()["loss"].get<double>(), 0.6931, 0.02);
  EXPECT_LT(steps.back()["loss"].get<double>(), 0.6);
  EXPECT_GT(steps.back()["rewards/accuracies"].get<double>(), 0.7);
  EXPECT_EQ(lines_with("val_rewards/margins").size(), 4u);
  EXPECT_NE(text_of(path("runs/dpo/report.html")).find("rewards/margins"), std::string::npos);
  EXPECT_TRUE(fs::exists(path("runs/dpo/model/model.safetensors")));
}

TEST_F(Dpo, RefusesInOneLine) {
  expect_refused(train({"--set", "model.init=runs/none"}), 1, {"model.init", "no folder"});
  expect_refused(train({"--set", "train.batch=5"}), 1, {"train.batch", "an even number"});
  expect_refused(train({"--set", "dpo.betta=1"}), 1, {"dpo.betta", "dpo.beta"});
  expect_refused(train({"--set", "dpo.reference_storage=fp9"}), 1, {"dpo.reference_storage"});
  expect_refused(train({"--set", "data.train=tiny.toml"}), 1, {"tiny.toml is no .jsonl file"});
  write_text(path("examples/dpo.jsonl"), "{\"prompt\": \"a\", \"completion\": \"b\"}\n");
  expect_refused(train(), 1, {"examples/dpo.jsonl:1: chosen: missing"});
  EXPECT_FALSE(fs::exists(path("runs/dpo")));
}

}  // namespace
}  // namespace ng::e2e
