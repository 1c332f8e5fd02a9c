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
  expect_refused(
      eval, 1,
      {"examples/sft.jsonl:1: messages: ", "--template: chatml, llama3, qwen2.5 or qwen3"});
  std::vector<std::string> more = eval;
  more.insert(more.end(), {"--template", "chatml"});
  expect_refused(more, 1, {"examples/sft.jsonl:2: no kind of document: \"text\", or "});
  more.back() = "alpaca";
  expect_refused(more, 2, {"--template", "alpaca"});
}

// Base and adapters together are the model that the same run merges.
TEST_F(Finetune, AFolderOfAdaptersIsAModel) {
  const std::vector<std::string> base = {"train",         "tiny.toml", "--set",
                                         "train.steps=2", "--out",     "base"};
  (void)run_well(base);
  write_text(path("lora.toml"),
             "model.init = \"base/model\"\ndata.train = \"tiny.txt\"\nlora.rank = 2\n"
             "train = { steps=3, batch=2, lr=1e-2, warmup=1 }\n");
  EXPECT_EQ(run({"train", "lora.toml", "--out", "merged"}).code, 0);
  EXPECT_EQ(run({"train", "lora.toml", "--out", "r", "--set", "lora.save=adapter"}).code, 0);
  const auto loss_of = [&](const char* model) {
    return parse_json(run_well({"eval", model, "--data", "tiny.txt", "--json"}), "")["loss"];
  };
  EXPECT_EQ(loss_of("r/model"), loss_of("merged/model"));
  EXPECT_NE(loss_of("r/model"), loss_of("base/model"));
  const auto text_after = [&](const char* model) {
    return run_well({"generate", model, "--prompt", "the", "--tokens", "9", "--temperature", "0"});
  };
  EXPECT_EQ(text_after("r/model"), text_after("merged/model"));
  (void)run_well({"import", "r/model", "whole"});
  EXPECT_EQ(text_of(path("whole/model.safetensors")),
            text_of(path("merged/model/model.safetensors")));
  (void)run_well({"export", "r/model", "x.gguf", "--to", "gguf", "--type", "f32"});
  EXPECT_EQ(loss_of("x.gguf"), loss_of("merged/model"));
  const std::string weights = text_of(path("base/model/model.safetensors"));
  expect_refused({"export", "r/model", "base/model", "--to", "hf", "--type", "bf16"}, 1,
                 {"base/model: is the input"});
  EXPECT_EQ(text_of(path("base/model/model.safetensors")), weights);
  expect_refused({"train", "lora.toml", "--set", "model.init=r/model"}, 1,
                 {"model.init: \"r/model\" holds adapters alone"});
  fs::rename(path("base"), path("gone"));
  expect_refused({"eval", "r/model", "--data", "tiny.txt"}, 1,
                 {"adapter_config.json: base_model_name_or_path: no folder \"base/model\""});
}

// What adapter_config.json calls the base may be gone, or a name on a hub.
TEST_F(Finetune, TheBaseOfAdaptersMayBeNamed) {
  (void)run_well({"train", "tiny.toml", "--set", "train.steps=2", "--out", "base"});
  write_text(path("lora.toml"),
             "model.init = \"base/model\"\ndata.train = \"tiny.txt\"\nlora.rank = 2\n"
             "lora.save = \"adapter\"\ntrain = { steps=3, batch=2, lr=1e-2, warmup=1 }\n");
  EXPECT_EQ(run({"train", "lora.toml", "--out", "r"}).code, 0);
  const auto with = [](std::vector<std::string> args, const std::string& base) {
    args.insert(args.end(), {"--base", base});
    return args;
  };
  fs::remove(path("r/model/tokenizer.json"));
  const std::vector<std::vector<std::string>> commands = {
      {"eval", "r/model", "--data", "tiny.txt", "--json"},
      {"generate", "r/model", "--prompt", "the", "--tokens", "9", "--temperature", "0"},
      {"plan", "r/model", "--ranks", "2"}};
  std::vector<std::string> said;
  for (const std::vector<std::string>& args : commands) said.push_back(run_well(args));
  (void)run_well({"import", "r/model", "whole"});
  (void)run_well({"export", "r/model", "x.gguf", "--to", "gguf", "--type", "f32"});
  fs::rename(path("base"), path("moved"));
  for (size_t i = 0; i < commands.size(); ++i) {
    expect_refused(commands[i], 1,
                   {"r/model/adapter_config.json: base_model_name_or_path: no folder",
                    ": --base FOLDER, a whole model: no hub is asked"});
    EXPECT_EQ(run_well(with(commands[i], "moved/model")), said[i]);
  }
  (void)run_well(with({"import", "r/model", "again"}, "moved/model"));
  EXPECT_EQ(text_of(path("again/model.safetensors")), text_of(path("whole/model.safetensors")));
  EXPECT_EQ(text_of(path("again/config.json")), text_of(path("whole/config.json")));
  (void)run_well(
      with({"export", "r/model", "y.gguf", "--to", "gguf", "--type", "f32"}, "moved/model"));
  EXPECT_EQ(text_of(path("y.gguf")), text_of(path("x.gguf")));
  expect_refused(
      with({"export", "r/model", "moved/model", "--to", "hf", "--type", "bf16"}, "moved/model"), 1,
      {"moved/model: is the input"});
  expect_refused(with(commands[0], "gone"), 1, {"--base: no folder \"gone\""});
  expect_refused(with({"eval", "moved/model", "--data", "tiny.txt"}, "moved/model"), 1,
                 {"--base: \"moved/model\" holds no adapters"});
  expect_refused(with({"import", "r/model", "x.safetensors"}, "moved/model"), 2, {"--base"});
}

}  // namespace
}  // namespace ng::e2e
