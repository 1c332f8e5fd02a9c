// Where text that a model is given begins, and where that which it makes ends.
#include <algorithm>

#include "base/json.h"
#include "e2e/program.h"
#include "io/gguf/gguf.h"
#include "support/lettered_model.h"

namespace ng::e2e {
namespace {

using Ids = std::vector<int64_t>;

constexpr int64_t kPrompt = 8, kMade = 16;  // tokens of the golden file's first sequence

class BeginEnd : public Program {
 protected:
  BeginEnd() {
    const Ids all = golden_.integers("greedy.tokens");
    prompt_.assign(all.begin(), all.begin() + kPrompt);
    made_.assign(all.begin() + kPrompt, all.begin() + kPrompt + kMade);
  }

  static std::string listed(const Ids& ids) {
    std::string list;
    for (const int64_t id : ids) list += (list.empty() ? "" : ",") + std::to_string(id);
    return list;
  }
  void write_model(const Json& tokenizer, const Json& config) const {
    write_lettered_model(path("model").string(), tokenizer, config);
  }
  [[nodiscard]] std::string generated(std::vector<std::string> args) const {
    args.insert(args.begin(), {"generate", "model"});
    args.insert(args.end(), {"--tokens", std::to_string(kMade), "--temperature", "0"});
    return run_well(args);
  }
  /// Trains from the model for a step, on letters.
  void train(const std::string& out, const std::vector<std::string>& settings = {}) const {
    std::string text;
    for (int64_t i = 0; i < 4000; ++i) text += letter((i * i) % kLetters);
    write_text(path("letters.txt"), text);
    write_text(path("run.toml"),
               "recipe = \"fp32\"\n[model]\ninit = \"model\"\n[data]\ntrain = \"letters.txt\"\n"
               "[train]\nsteps = 1\nbatch = 2\n");
    std::vector<std::string> args = {"train", "run.toml", "--out", out};
    for (const std::string& setting : settings) args.insert(args.end(), {"--set", setting});
    const Result result = run(args);  // notes how many parameters adapters have
    EXPECT_EQ(result.code, 0) << result.err;
  }
  [[nodiscard]] Ids made(size_t count) const {
    return {made_.begin(), made_.begin() + static_cast<int64_t>(count)};
  }

  const GoldenFile golden_{std::string(kLetteredModel) + "reference"};
  Ids prompt_, made_;
};

// The golden tokens up to the third, which the files call an end, each before the next.
TEST_F(BeginEnd, GenerateStopsAtTheModelsEnds) {
  const std::vector<std::string> ids = {"--prompt-ids", listed(prompt_), "--ids"};
  write_model(lettered_tokenizer(), Json::object());
  EXPECT_EQ(generated(ids), listed(made_) + "\n");
  write_model(lettered_tokenizer(), {{"eos_token", letter(made_[4])}});
  EXPECT_EQ(generated(ids), listed(made(5)) + "\n") << "the tokenizer's";
  Json config = Json::parse(text_of(path("model/config.json")));
  config["eos_token_id"] = made_[3];
  write_text(path("model/config.json"), config.dump());
  EXPECT_EQ(generated(ids), listed(made(4)) + "\n") << "config.json's";
  write_text(path("model/generation_config.json"), Json{{"eos_token_id", {1, made_[2]}}}.dump());
  EXPECT_EQ(generated(ids), listed(made(3)) + "\n") << "generation_config.json's";
  EXPECT_EQ(generated({"--prompt", letters(prompt_)}), letters(made(2)) + "\n");
  const Json json = Json::parse(generated({"--prompt", letters(prompt_), "--json"}));
  EXPECT_EQ(json["ids"], Json(made(3)));
  EXPECT_EQ(json["text"], letters(made(2)));
  EXPECT_EQ(json["ended"], true);
  EXPECT_EQ(generated({"--prompt", letters(prompt_), "--ignore-eos"}), letters(made_) + "\n");
  write_text(path("model/generation_config.json"), R"({"eos_token_id": "end"})");
  expect_refused({"generate", "model", "--prompt-ids", "1", "--ids"}, 1,
                 {"generation_config.json: eos_token_id: \"end\": a token id, or a list of them"});
}

TEST_F(BeginEnd, APromptBeginsAsTheTokenizerSays) {
  const Ids rest(prompt_.begin() + 1, prompt_.end());
  Json tokenizer = lettered_tokenizer();
  tokenizer["post_processor"] = template_of(prompt_[0]);
  write_model(tokenizer, Json::object());
  EXPECT_EQ(generated({"--prompt", letters(rest)}), letters(made_) + "\n");
  EXPECT_EQ(generated({"--prompt", letters(prompt_)}), letters(made_) + "\n") << "not twice";
  EXPECT_NE(generated({"--prompt", letters(rest), "--no-bos"}), letters(made_) + "\n");
  EXPECT_EQ(generated({"--prompt-ids", listed(rest)}),
            generated({"--prompt", letters(rest), "--no-bos"}))
      << "ids are all there is";
  write_model(lettered_tokenizer(), {{"bos_token", letter(prompt_[0])}, {"add_bos_token", true}});
  EXPECT_EQ(generated({"--prompt", letters(rest)}), letters(made_) + "\n");
}

// As the folder does: what begins and ends texts is in the keys.
TEST_F(BeginEnd, GgufFilesDoAsTheirFolder) {
  const Ids rest(prompt_.begin() + 1, prompt_.end());
  Json tokenizer = lettered_tokenizer();
  tokenizer["post_processor"] = template_of(prompt_[0]);
  write_model(tokenizer, {{"bos_token", letter(prompt_[0])}, {"eos_token", letter(1)}});
  write_text(path("model/generation_config.json"),
             Json{{"eos_token_id", {1, made_[5]}}, {"top_k", 7}}.dump());
  (void)run_well({"export", "model", "a.gguf", "--to", "gguf", "--type", "f32"});
  const io::Gguf file(path("a.gguf").string());
  EXPECT_EQ(file.integer("tokenizer.ggml.bos_token_id", 0, 127), prompt_[0]);
  EXPECT_EQ(file.integer("tokenizer.ggml.eos_token_id", 0, 127), 1);
  EXPECT_EQ(file.integer("tokenizer.ggml.eot_token_id", 0, 127), made_[5]);
  EXPECT_TRUE(file.boolean_or("tokenizer.ggml.add_bos_token", false));
  (void)run_well({"import", "a.gguf", "back"});
  for (const char* model : {"model", "a.gguf", "back"})
    EXPECT_EQ(run_well({"generate", model, "--prompt", letters(rest), "--temperature", "0"}),
              letters(made(5)) + "\n")
        << model;
  for (const char* name : {"back/config.json", "back/generation_config.json"}) {
    const Json json = Json::parse(text_of(path(name)));
    EXPECT_EQ(json["eos_token_id"], Json({1, made_[5]})) << name;
    EXPECT_EQ(json["bos_token_id"], prompt_[0]) << name;
  }
  write_text(path("t.txt"), letters(made_));
  const auto losses = [&](const char* model, const char* flag) {
    return Json::parse(run_well({"eval", model, "--data", "t.txt", "--json", flag}));
  };
  for (const char* flag : {"--prefix-end", "--no-bos"})
    EXPECT_EQ(losses("a.gguf", flag), losses("model", flag)) << flag;
  EXPECT_EQ(losses("model", "--prefix-end")["tokens"], kMade);
  EXPECT_EQ(losses("model", "--no-bos")["tokens"], kMade - 1);
}

// Training, merged adapters too, writes what the model it began with says, and export and import
// do.
TEST_F(BeginEnd, SettingsOfTheModelGoAlong) {
  write_model(lettered_tokenizer(), {{"eos_token", letter(2)}});
  Json config = Json::parse(text_of(path("model/config.json")));
  config["eos_token_id"] = {2, 5};
  config["pad_token_id"] = 0;
  config["pretraining_tp"] = 1;
  write_text(path("model/config.json"), config.dump());
  const std::string generation = R"({"eos_token_id":[2,5],"temperature":0.6, "pad_token_id":9})";
  write_text(path("model/generation_config.json"), generation);
  write_text(path("model/special_tokens_map.json"), R"({"pad_token": "x"})");
  train("plain");
  train("merged", {"lora.rank=2", "lora.save=merged"});
  train("adapters", {"lora.rank=2"});
  (void)run_well({"import", "adapters/model", "imported"});
  (void)run_well({"export", "plain/model", "exported", "--to", "hf", "--type", "bf16"});
  for (const std::string folder : {"plain/model", "merged/model", "imported", "exported"}) {
    const Json written = Json::parse(text_of(path(folder + "/config.json")));
    EXPECT_EQ(written["eos_token_id"], Json({2, 5})) << folder;
    EXPECT_EQ(written["pad_token_id"], 0) << folder;
    EXPECT_EQ(written["bos_token_id"], 0) << folder;
    EXPECT_EQ(written["pretraining_tp"], 1) << folder;
    const Json generates = Json::parse(text_of(path(folder + "/generation_config.json")));
    EXPECT_EQ(generates["eos_token_id"], Json({2, 5})) << folder;
    EXPECT_EQ(generates["temperature"], 0.6) << folder;
    EXPECT_EQ(generates["pad_token_id"], 9) << folder;
    EXPECT_EQ(generates["bos_token_id"], 0) << folder;
    EXPECT_EQ(text_of(path(folder + "/special_tokens_map.json")), R"({"pad_token": "x"})");
  }
}

TEST_F(BeginEnd, AModelFromScratchHasTheTokenizersEnd) {
  (void)run_well({"train", "tiny.toml", "--out", "r", "--set", "train.steps=1"});
  for (const char* name : {"r/model/config.json", "r/model/generation_config.json"}) {
    const Json json = Json::parse(text_of(path(name)));
    EXPECT_EQ(json["eos_token_id"], 255) << name;
    EXPECT_EQ(json["pad_token_id"], 255) << name;
    EXPECT_TRUE(json["bos_token_id"].is_null()) << name;
  }
}

// Wherever the template stands, it is where every reader looks in all that is written.
TEST_F(BeginEnd, ChatTemplatesAreFoundAndGoAlong) {
  write_model(lettered_tokenizer(), {{"eos_token", letter(2)}});
  const std::string jinja = "{% for m in messages %}{{ m }}{% endfor %}\n", tools = "{{ tools }}";
  write_text(path("model/chat_template.jinja"), jinja);
  fs::create_directory(path("model/additional_chat_templates"));
  write_text(path("model/additional_chat_templates/tool-use.jinja"), tools);
  (void)run_well({"export", "model", "a.gguf", "--to", "gguf", "--type", "f32"});
  const io::Gguf file(path("a.gguf").string());
  EXPECT_EQ(file.text("tokenizer.chat_template"), jinja);
  EXPECT_EQ(file.text("tokenizer.chat_template.tool_use"), tools);
  EXPECT_EQ(file.texts("tokenizer.chat_templates"), std::vector<std::string>{"tool_use"});
  (void)run_well({"export", "model", "folder", "--to", "hf", "--type", "bf16"});
  (void)run_well({"import", "model", "imported"});
  (void)run_well({"import", "a.gguf", "back"});
  train("r");
  (void)run_well({"export", "r/model", "r/model.gguf", "--to", "gguf", "--type", "f32"});
  for (const std::string folder : {"folder", "imported", "back", "r/model"}) {
    const char* const name = folder == "back" ? "tool_use" : "tool-use";
    EXPECT_EQ(text_of(path(folder + "/chat_template.jinja")), jinja) << folder;
    EXPECT_EQ(text_of(path(folder + "/additional_chat_templates/" + name + ".jinja")), tools);
    const Json config = Json::parse(text_of(path(folder + "/tokenizer_config.json")));
    EXPECT_EQ(config["chat_template"], Json({{{"name", "default"}, {"template", jinja}},
                                             {{"name", name}, {"template", tools}}}))
        << folder;
  }
  EXPECT_EQ(io::Gguf(path("r/model.gguf").string()).text("tokenizer.chat_template"), jinja);
  train("named", {"data.template=chatml"});
  EXPECT_NE(text_of(path("named/model/chat_template.jinja")).find("<|im_start|>"),
            std::string::npos);
  EXPECT_EQ(text_of(path("named/model/additional_chat_templates/tool-use.jinja")), tools);
}

// As import does, whoever reads texts by such a file.
TEST_F(BeginEnd, AFileThatNamesNoPatternIsNoted) {
  const std::string tokenizer = NG_SOURCE_DIR "/tests/golden/tokenizers/gpt2.json";
  (void)run_well({"train", "tiny.toml", "--out", "r", "--set", "train.steps=1", "--set",
                  "data.tokenizer=" + tokenizer});
  (void)run_well({"export", "r/model", "a.gguf", "--to", "gguf", "--type", "f32"});
  std::string bytes = text_of(path("a.gguf"));
  const std::string key = "tokenizer.ggml.pre";
  bytes.replace(bytes.find(key), key.size(), "tokenizer.ggml.???");
  write_text(path("a.gguf"), bytes);
  write_text(path("words.txt"), "some words");
  const std::vector<std::vector<std::string>> commands = {
      {"generate", "a.gguf", "--prompt", "some", "--tokens", "1"},
      {"eval", "a.gguf", "--data", "words.txt"},
      {"import", "a.gguf", "back"}};
  for (const std::vector<std::string>& command : commands) {
    const Result result = run(command);
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_NE(result.err.find("does not name its pre-tokenizer"), std::string::npos) << command[0];
  }
}

}  // namespace
}  // namespace ng::e2e
