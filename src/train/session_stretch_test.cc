// Each stretch of a run leaves its settings, and what they were before, in metrics.jsonl and
// run.toml.
#include "support/session_runs.h"
#include "train/run_files.h"

namespace ng {
namespace {

class SessionStretches : public SessionRuns {
 protected:
  [[nodiscard]] std::vector<Json> events(const std::string& name) const {
    std::vector<Json> found;
    for (const Json& line : metrics_lines())
      if (line.value("event", "") == name) found.push_back(line);
    return found;
  }
  [[nodiscard]] std::string run_toml() const { return read_file(in("out/run.toml"), kMaxFile); }
  void put_metrics(const std::vector<Json>& lines) const {
    std::string text;
    for (const Json& line : lines) text += line.dump() + "\n";
    write_file_atomically(in("out/metrics.jsonl"), text);
  }
};

Json both(const Json& before, const Json& now) { return {{"before", before}, {"now", now}}; }

TEST_F(SessionStretches, TheFirstHasAllSettings) {
  interrupt(config({"recipe=bf16"}), 3);
  ASSERT_EQ(events("start").size(), 1u);
  const Json start = events("start").front();
  EXPECT_EQ(start["step"], 0);
  EXPECT_FALSE(start.contains("changed"));
  const Json& settings = start["settings"];
  EXPECT_EQ(settings["train.lr"], 0.01);
  EXPECT_EQ(settings["train.schedule"], "cosine");
  EXPECT_EQ(settings["data.train"], Json::array({in("text.txt")}));
  EXPECT_EQ(settings["seed"], 3);
  EXPECT_EQ(settings["ranks"], 1);
  EXPECT_EQ(settings["recipe"], "bf16");
  EXPECT_EQ(settings["recipe.linear.fprop.weight"], "bf16");
  EXPECT_EQ(run_toml().find("changed"), std::string::npos);
}

TEST_F(SessionStretches, AResumedOneSaysWhatChangedWithBothValues) {
  interrupt(config(), 2);
  interrupt(config(), 3, true);
  interrupt(config({"train.lr=0.02", "train.threads=2"}), 4, true);
  Listener listener;
  train(config({"train.lr=0.02"}), listener, true);
  const std::vector<Json> resumed = events("resume");
  ASSERT_EQ(resumed.size(), 3u);
  EXPECT_EQ(resumed[0]["changed"], Json::object());
  EXPECT_EQ(resumed[0]["settings"], events("start").front()["settings"]);
  EXPECT_EQ(resumed[1]["step"], 3);
  EXPECT_EQ(resumed[1]["changed"], Json::object({{"train.lr", both(0.01, 0.02)},
                                                 {"train.min_lr", both(0.001, 0.002)},
                                                 {"train.threads", both(1, 2)}}));
  EXPECT_EQ(resumed[1]["settings"]["train.lr"], 0.02);
  EXPECT_EQ(resumed[2]["changed"], Json::object({{"train.threads", both(2, 1)}}));
  EXPECT_EQ(listener.notices, std::vector<std::string>{"resuming at step 4"});
  const std::string file = run_toml();
  EXPECT_NE(file.find("# Settings that changed where the run was resumed:\n"
                      "# after step 3: train.lr: 0.01 -> 0.02\n"
                      "# after step 3: train.min_lr: 0.001 -> 0.002\n"
                      "# after step 3: train.threads: 1 -> 2\n"
                      "# after step 4: train.threads: 2 -> 1\n"),
            std::string::npos)
      << file;
  EXPECT_EQ(recipe_of_run_file(in("out/run.toml"))->hash(), Recipe::load("fp32").hash());
}

TEST_F(SessionStretches, TheRunFileInTheFolderGoesOn) {
  interrupt(config(), 2);
  interrupt(config({"train.lr=0.02"}), 3, true);
  const std::string before = run_toml();
  interrupt(RunConfig::load(in("out/run.toml")), 4, true);
  EXPECT_EQ(run_toml(), before);
  write_file_atomically(in("out/run.toml"), before + "# mine\n");
  EXPECT_NE(refusal(RunConfig::load(in("out/run.toml")), true).find("would be replaced"),
            std::string::npos);
}

// A process that ended before its first step, or whose steps are lost.
TEST_F(SessionStretches, OneWithoutAStepThatIsLeftCountsForNothing) {
  interrupt(config(), 3);
  std::vector<Json> lines = metrics_lines();
  Json lost = lines.front();
  ASSERT_EQ(lost["event"], "start");
  lost["event"] = "resume";
  lost["step"] = 3;
  lost["settings"]["train.weight_decay"] = 0.5;
  lost["changed"] = {{"train.weight_decay", both(0.1, 0.5)}};
  lines.push_back(lost);
  put_metrics(lines);
  interrupt(config({"train.clip=2"}), 4, true);
  EXPECT_EQ(events("resume").back()["changed"], Json::object({{"train.clip", both(1, 2)}}));
  EXPECT_EQ(run_toml().find("weight_decay:"), std::string::npos) << run_toml();
}

TEST_F(SessionStretches, TheCheckpointTellsWhereNoStretchDoes) {
  interrupt(config(), 3);
  std::vector<Json> lines = metrics_lines();
  std::erase_if(lines, [](const Json& line) { return line.value("event", "") == "start"; });
  put_metrics(lines);  // as a version left them that noted none
  interrupt(config({"train.lr=0.02", "train.threads=2"}), 4, true);
  EXPECT_EQ(events("resume").back()["changed"],
            Json::object({{"train.lr", both(0.01, 0.02)}, {"train.min_lr", both(0.001, 0.002)}}));
  EXPECT_NE(run_toml().find("# after step 3: train.lr: 0.01 -> 0.02\n"), std::string::npos);
}

TEST_F(SessionStretches, WithMoreStepsMayGoBackInPhaseAndSaysSo) {
  const std::string recipe = recipe_file(
      "inherit = 'bf16'\n[[phase]]\nstart = 0.5\nlinear.fprop = {input = 'fp32', "
      "weight = 'fp32'}\n");
  const auto resumed_with = [&](const char* steps) {
    remove_all(in("out"));
    interrupt(config({recipe, "train.steps=10"}), 6);
    Listener listener;
    listener.stop_after = 7;
    train(config({recipe, steps}), listener, true);
    return listener.heard(
        "resuming at step 6 in phase 0 (the first of 2: up to 50 % of training), "
        "until here phase 1: train.steps was 10");
  };
  EXPECT_TRUE(resumed_with("train.steps=40"));
  EXPECT_FALSE(resumed_with("train.steps=10"));
}

}  // namespace
}  // namespace ng
