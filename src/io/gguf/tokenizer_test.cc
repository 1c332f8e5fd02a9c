// Tokenizers as llama.cpp's keys.
#include "io/gguf/tokenizer.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "support/scratch_folder.h"
#include "tokenizer/byte_tokenizer.h"

namespace ng {
namespace {

using io::GgufValue;

std::map<std::string, GgufValue> keys_of(const Json& tokenizer, const Json& config, int64_t vocab) {
  const io::GgufKeys keys = gguf_tokenizer(tokenizer, config, "m/tokenizer.json", vocab).keys;
  return {keys.begin(), keys.end()};
}

std::string refused(const Json& tokenizer, const Json& config = Json::object(),
                    int64_t vocab = 300) {
  return error_of([&] { (void)keys_of(tokenizer, config, vocab); });
}

Json byte_level(bool use_regex) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", use_regex}};
}

Json bpe() {
  return {{"added_tokens",
           {{{"id", 4}, {"content", "<end>"}, {"special", true}},
            {{"id", 5}, {"content", "<x>"}, {"special", false}}}},
          {"normalizer", nullptr},
          {"pre_tokenizer", byte_level(true)},
          {"post_processor", nullptr},
          {"model",
           {{"type", "BPE"},
            {"vocab", {{"a", 0}, {"b", 1}, {"ab", 2}}},
            {"merges", Json::array({Json::array({"a", "b"})})}}}};
}

TEST(GgufTokenizer, BytesGetAnEndToken) {
  const auto keys = keys_of(parse_json(byte_tokenizer_json(), ""), Json::object(), 256);
  EXPECT_EQ(keys.at("tokenizer.ggml.pre"), GgufValue::of_text("smollm"));
  EXPECT_EQ(keys.at("tokenizer.ggml.tokens").texts.at(255), "<|endoftext|>");
  EXPECT_EQ(keys.at("tokenizer.ggml.tokens").texts.at('A'), "A");
  EXPECT_EQ(keys.at("tokenizer.ggml.merges"), GgufValue::of_texts({}));
  EXPECT_EQ(keys.at("tokenizer.ggml.eos_token_id"), GgufValue::of_u32(255));
}

TEST(GgufTokenizer, ByteLevelTokensHaveKinds) {
  const Json config = {{"eos_token", {{"content", "<end>"}}}, {"chat_template", "{{x}}"}};
  const auto keys = keys_of(bpe(), config, 7);
  EXPECT_EQ(keys.at("tokenizer.ggml.model"), GgufValue::of_text("gpt2"));
  EXPECT_EQ(keys.at("tokenizer.ggml.pre"), GgufValue::of_text("gpt-2"));
  EXPECT_EQ(keys.at("tokenizer.ggml.tokens").texts,
            (std::vector<std::string>{"a", "b", "ab", "[PAD3]", "<end>", "<x>", "[PAD6]"}));
  EXPECT_EQ(keys.at("tokenizer.ggml.token_type"),
            GgufValue::of_i32s(std::vector<int32_t>{1, 1, 1, 5, 3, 4, 5}));
  EXPECT_EQ(keys.at("tokenizer.ggml.merges"), GgufValue::of_texts({"a b"}));
  EXPECT_EQ(keys.at("tokenizer.ggml.eos_token_id"), GgufValue::of_u32(4));
  EXPECT_FALSE(keys.contains("tokenizer.ggml.bos_token_id"));
  EXPECT_EQ(keys.at("tokenizer.ggml.add_bos_token"), GgufValue::of_boolean(false));
  EXPECT_EQ(keys.at("tokenizer.chat_template"), GgufValue::of_text("{{x}}"));
}

TEST(GgufTokenizer, ThePostProcessorSaysWhatIsAdded) {
  Json tokenizer = bpe();
  tokenizer["post_processor"] = {{"type", "TemplateProcessing"},
                                 {"single",
                                  {{{"SpecialToken", {{"id", "<end>"}, {"type_id", 0}}}},
                                   {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}}};
  const auto keys = keys_of(tokenizer, Json::object(), 7);
  EXPECT_EQ(keys.at("tokenizer.ggml.add_bos_token"), GgufValue::of_boolean(true));
  EXPECT_EQ(keys.at("tokenizer.ggml.add_eos_token"), GgufValue::of_boolean(false));
  EXPECT_EQ(keys.at("tokenizer.ggml.bos_token_id"), GgufValue::of_u32(4)) << "what is added";
}

TEST(GgufTokenizer, ConfigurationsSayWhatIsAdded) {
  Json config = {{"bos_token", "<x>"}, {"add_bos_token", true}};
  EXPECT_EQ(keys_of(bpe(), config, 7).at("tokenizer.ggml.add_bos_token"),
            GgufValue::of_boolean(true));
  Json tokenizer = bpe();
  tokenizer["post_processor"] = {{"type", "TemplateProcessing"},
                                 {"single",
                                  {{{"SpecialToken", {{"id", "<x>"}, {"type_id", 0}}}},
                                   {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}}};
  config["add_bos_token"] = false;
  EXPECT_EQ(keys_of(tokenizer, config, 7).at("tokenizer.ggml.add_bos_token"),
            GgufValue::of_boolean(false));
  const Json other = {{"bos_token", "<end>"}};
  const GgufTokenizer written = gguf_tokenizer(tokenizer, other, "m/tokenizer.json", 7);
  EXPECT_EQ(written.notes, std::vector<std::string>{"add_bos_token is false: GGUF cannot say that "
                                                    "texts have \"<x>\" there"});
}

// What the tokenizer names comes first, as in llama.cpp's converter.
TEST(GgufTokenizer, SettingsOfTheModelStandInForTheTokenizers) {
  const auto keys_with = [&](const Json& config, const io::ModelSettings& settings) {
    const GgufTokenizer written = gguf_tokenizer(bpe(), config, "m/tokenizer.json", 7, settings);
    return std::pair(std::map<std::string, GgufValue>(written.keys.begin(), written.keys.end()),
                     written.notes);
  };
  io::ModelSettings settings;
  settings.config = {{"bos_token_id", 1}, {"eos_token_id", {2, 4}}, {"pad_token_id", 9}};
  const auto [keys, notes] = keys_with(Json::object(), settings);
  EXPECT_EQ(keys.at("tokenizer.ggml.bos_token_id"), GgufValue::of_u32(1));
  EXPECT_EQ(keys.at("tokenizer.ggml.eos_token_id"), GgufValue::of_u32(2));
  EXPECT_EQ(keys.at("tokenizer.ggml.eot_token_id"), GgufValue::of_u32(4));
  EXPECT_FALSE(keys.contains("tokenizer.ggml.padding_token_id")) << "no id of the model";
  EXPECT_TRUE(notes.empty());
  settings.generation = {{"eos_token_id", {5, 2, 0, 1}}};
  const auto [more, lost] = keys_with({{"eos_token", "<end>"}, {"bos_token", "<x>"}}, settings);
  EXPECT_EQ(more.at("tokenizer.ggml.bos_token_id"), GgufValue::of_u32(5));
  EXPECT_EQ(more.at("tokenizer.ggml.eos_token_id"), GgufValue::of_u32(4));
  EXPECT_EQ(more.at("tokenizer.ggml.eot_token_id"), GgufValue::of_u32(5));
  EXPECT_EQ(more.at("tokenizer.ggml.eom_token_id"), GgufValue::of_u32(2));
  EXPECT_EQ(lost, std::vector<std::string>{"GGUF has keys for three tokens that end a text, not "
                                           "for \"a\", \"b\""});
}

// [gguf-py gguf_writer.py, add_chat_template]
TEST(GgufTokenizer, ChatTemplatesHaveKeysByName) {
  const Json config = {{"chat_template",
                        {{{"name", "tool-use"}, {"template", "t"}},
                         {{"name", "default"}, {"template", "d"}},
                         {{"name", "tool_use"}, {"template", "u"}}}}};
  const GgufTokenizer written = gguf_tokenizer(bpe(), config, "m/tokenizer.json", 7);
  const std::map<std::string, GgufValue> keys(written.keys.begin(), written.keys.end());
  EXPECT_EQ(keys.at("tokenizer.chat_template"), GgufValue::of_text("d"));
  EXPECT_EQ(keys.at("tokenizer.chat_template.tool_use"), GgufValue::of_text("t"));
  EXPECT_EQ(keys.at("tokenizer.chat_templates"), GgufValue::of_texts({"tool_use"}));
  EXPECT_EQ(written.notes, std::vector<std::string>{"the chat template \"tool_use\" is left out: "
                                                    "GGUF has one named tool_use"});
}

TEST(GgufTokenizer, PiecesAreScoredByTheirFirstMerge) {
  Json tokenizer = bpe();
  tokenizer["pre_tokenizer"] = {
      {"type", "Metaspace"}, {"replacement", "\xE2\x96\x81"}, {"prepend_scheme", "first"}};
  tokenizer["model"] = {{"type", "BPE"},
                        {"unk_token", "<unk>"},
                        {"byte_fallback", true},
                        {"vocab", {{"<unk>", 0}, {"<0x0A>", 1}, {"a", 2}, {"aa", 3}, {"aaa", 6}}},
                        {"merges", {"a a", "aa a", "a aa"}}};
  const auto keys = keys_of(tokenizer, Json::object(), 7);
  EXPECT_EQ(keys.at("tokenizer.ggml.model"), GgufValue::of_text("llama"));
  const std::string& bytes = keys.at("tokenizer.ggml.scores").bytes;
  std::vector<float> scores(bytes.size() / sizeof(float));
  std::memcpy(scores.data(), bytes.data(), bytes.size());
  EXPECT_EQ(scores, (std::vector<float>{0, 0, 0, 0, 0, 0, -1}));
  EXPECT_EQ(keys.at("tokenizer.ggml.token_type"),
            GgufValue::of_i32s(std::vector<int32_t>{2, 6, 1, 1, 3, 4, 1}));
  EXPECT_EQ(keys.at("tokenizer.ggml.add_space_prefix"), GgufValue::of_boolean(true));
  EXPECT_EQ(keys.at("tokenizer.ggml.unknown_token_id"), GgufValue::of_u32(0));
}

TEST(GgufTokenizer, RefusesByName) {
  Json tokenizer = bpe();
  EXPECT_EQ(
      refused(tokenizer, Json::object(), 4),
      "m/tokenizer.json: added_tokens.id: 4 of \"<end>\": ids below 4, the model's vocabulary");
  EXPECT_EQ(
      refused(tokenizer, {{"eos_token", "<no>"}}),
      "m/tokenizer_config.json: eos_token: \"<no>\": a token of the tokenizer.json beside it");
  tokenizer["normalizer"] = {{"type", "Lowercase"}};
  EXPECT_EQ(refused(tokenizer),
            "m/tokenizer.json: normalizer: Lowercase has no form in GGUF: none");
  tokenizer = bpe();
  tokenizer["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers", {{{"type", "Split"}, {"pattern", {{"Regex", "\\s"}}}}, byte_level(false)}}};
  EXPECT_EQ(
      refused(tokenizer),
      "m/tokenizer.json: pre_tokenizer: \"\\\\s\" has no form in GGUF: a pattern of gpt-2, "
      "llama-bpe, llama3, llama-v3, qwen2, deepseek-r1-qwen, qwen35, gpt-4o, smollm, starcoder, "
      "refact, command-r, deepseek-llm, deepseek-coder, deepseek-v3");
  tokenizer = bpe();
  tokenizer["model"]["merges"] = {"ab"};
  EXPECT_EQ(refused(tokenizer),
            "m/tokenizer.json: model.merges: \"ab\": \"a b\" or [\"a\", \"b\"]");
  tokenizer = bpe();
  tokenizer["added_tokens"][0]["lstrip"] = "left";
  EXPECT_EQ(refused(tokenizer), "m/tokenizer.json: added_tokens.lstrip: \"left\": true or false");
  tokenizer = bpe();
  tokenizer["pre_tokenizer"] = {{"type", "Metaspace"}};
  tokenizer["model"] = {{"type", "Unigram"}, {"unk_id", 0}, {"vocab", {{"a", 0}}}};
  EXPECT_EQ(refused(tokenizer),
            "m/tokenizer.json: model.vocab: {\"a\":0}: a list of names and scores");
  tokenizer = bpe();
  tokenizer["model"]["type"] = "WordPiece";
  EXPECT_EQ(refused(tokenizer),
            "m/tokenizer.json: model.type: \"WordPiece\" has no form in GGUF: BPE or Unigram");
}

}  // namespace
}  // namespace ng
