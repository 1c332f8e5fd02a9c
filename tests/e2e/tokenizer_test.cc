// tokenizer train, and a run with what it wrote.
#include "program.h"

namespace ng::e2e {
namespace {

using TokenizerCommand = Program;

std::vector<std::string> train_tokenizer(const std::string& out,
                                         std::vector<std::string> more = {}) {
  std::vector<std::string> args = {"tokenizer", "train", "tiny.txt",  out,
                                   "--vocab",   "270",   "--pattern", "llama3"};
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

TEST_F(TokenizerCommand, WritesTheSameFileWithAnyThreads) {
  EXPECT_EQ(run_well(train_tokenizer("a.json", {"--threads", "1"})),
            "a.json: 270 tokens, 13 merges\n");
  (void)run_well(train_tokenizer("b.json", {"--threads", "3"}));
  EXPECT_EQ(text_of(path("a.json")), text_of(path("b.json")));
  const std::string json = run_well(
      train_tokenizer("c.json", {"--json", "--special", "<a>", "--special", "<b>", "--nfc"}));
  EXPECT_NE(json.find("\"merges\": 12"), std::string::npos) << json;
  const std::string file = text_of(path("c.json"));
  EXPECT_NE(file.find("\"<b>\": 1"), std::string::npos);
  EXPECT_NE(file.find("NFC"), std::string::npos);
  (void)run_well(train_tokenizer("a.json"));  // its own file is replaced
}

TEST_F(TokenizerCommand, SaysWhereTextsGiveNoMore) {
  const Result result = run(train_tokenizer("a.json", {"--min-frequency", "61"}));
  EXPECT_EQ(result.code, 0);
  EXPECT_NE(result.err.find("narrowgauge: note: a.json: the texts give no more than"),
            std::string::npos)
      << result.err;
}

TEST_F(TokenizerCommand, RefusesAndLeavesNothing) {
  const std::vector<std::string> base = {"tokenizer", "train", "none.txt",  "a.json",
                                         "--vocab",   "270",   "--pattern", "gpt2"};
  expect_refused(base, 1, {"none.txt"});
  expect_refused(
      {"tokenizer", "train", "tiny.txt", "a.json", "--vocab", "256", "--pattern", "gpt2"}, 1,
      {"vocab: 256", "at least 257"});
  expect_refused(
      {"tokenizer", "train", "tiny.txt", "tiny.txt", "--vocab", "270", "--pattern", "gpt2"}, 1,
      {"tiny.txt"});
  expect_refused({"tokenizer", "train", "tiny.txt", "a.json", "--vocab", "270", "--pattern", "x"},
                 2, {"--pattern"});
  expect_refused({"tokenizer", "train", "tiny.txt", "a.json", "--vocab", "0", "--pattern", "gpt2"},
                 2, {"--vocab"});
  expect_refused({"tokenizer", "train", "tiny.txt", "--vocab", "270", "--pattern", "gpt2"}, 2,
                 {"FILES"});
  expect_refused({"tokenizer"}, 2, {"tokenizer --help"});
  EXPECT_FALSE(fs::exists(path("a.json")));
}

// The run's model folder has the tokenizer, byte for byte, and is generated from with it.
TEST_F(TokenizerCommand, WritesWhatARunTakes) {
  (void)run_well(train_tokenizer("t.json"));
  (void)run_well({"train", "tiny.toml", "--set", "data.tokenizer=\"t.json\"", "--set",
                  "train.steps=2", "--out", "run"});
  EXPECT_EQ(text_of(path("run/model/tokenizer.json")), text_of(path("t.json")));
  const std::string config = text_of(path("run/model/tokenizer_config.json"));
  EXPECT_NE(config.find("<|endoftext|>"), std::string::npos);
  EXPECT_FALSE(
      run_well({"generate", "run/model", "--prompt", "the quick", "--tokens", "3"}).empty());
}

}  // namespace
}  // namespace ng::e2e
