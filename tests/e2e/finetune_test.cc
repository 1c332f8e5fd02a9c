// Documents with loss masks: the example, as users run it.
#include <algorithm>

#include "base/json.h"
#include "program.h"

namespace ng::e2e {
namespace {

class Finetune : public Program {
 protected:
  Finetune() {
    fs::create_directory(path("examples"));
    fs::copy_file(fs::path(NG_SOURCE_DIR) / "examples/sft.jsonl", path("examples/sft.jsonl"));
    fs::copy_file(fs::path(NG_SOURCE_DIR) / "examples/sft.toml", path("examples/sft.toml"));
  }
  [[nodiscard]] Json evaluated(const std::string& model, std::vector<std::string> more = {}) const {
    std::vector<std::string> args = {"eval", model, "--data", "examples/sft.jsonl", "--json"};
    args.insert(args.end(), more.begin(), more.end());
    return Json::parse(run_well(args));
  }
};

TEST_F(Finetune, TheExampleLearnsItsCompletions) {
  (void)run_well({"train", "tiny.toml", "--out", "runs/quickstart"});
  const Json before = evaluated("runs/quickstart/model");
  (void)run_well(
      {"train", "examples/sft.toml", "--set", "train.steps=60", "--set", "train.lr=3e-3"});
  const Json after = evaluated("runs/sft/model");
  int64_t completions = 0, ends = 0;
  std::istringstream lines(text_of(path("examples/sft.jsonl")));
  for (std::string line; std::getline(lines, line); ++ends)
    completions += std::ssize(Json::parse(line)["completion"].get<std::string>());
  EXPECT_EQ(before["tokens"], completions + ends);
  EXPECT_EQ(after["bytes"], completions);
  EXPECT_LT(after["loss"].get<double>(), before["loss"].get<double>() - 1);
}

TEST_F(Finetune, EvalTakesChatsAndKeys) {
  (void)run_well({"train", "tiny.toml", "--out", "runs/quickstart", "--set", "train.steps=2"});
  write_text(path("examples/sft.jsonl"),
             "{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}, "
             "{\"role\": \"assistant\", \"content\": \"ho\"}]}\n{\"body\": \"a text\"}\n");
  const std::string model = "runs/quickstart/model";
  EXPECT_EQ(evaluated(model, {"--template", "chatml", "--text-key", "body"})["tokens"],
            2 + 10 + 6 + 1);
  EXPECT_EQ(evaluated(model, {"--template", "llama3", "--text-key", "body"})["tokens"],
            2 + 10 + 6 + 1);
  const std::vector<std::string> eval = {"eval", model, "--data", "examples/sft.jsonl"};
  expect_refused(eval, 1, {"examples/sft.jsonl:1: messages: ", "--template: chatml or llama3"});
  std::vector<std::string> more = eval;
  more.insert(more.end(), {"--template", "chatml"});
  expect_refused(more, 1, {"examples/sft.jsonl:2: no kind of document: \"text\", or "});
  more.back() = "alpaca";
  expect_refused(more, 2, {"--template", "alpaca"});
}

}  // namespace
}  // namespace ng::e2e
