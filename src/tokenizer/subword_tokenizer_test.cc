#include "tokenizer/subword_tokenizer.h"

#include <gtest/gtest.h>

#include <random>

#include "base/error.h"
#include "base/files.h"
#include "base/text.h"
#include "base/utf8.h"
#include "tokenizer/tokenizer.h"

namespace ng {
namespace {

const std::string kSubwordGolden = NG_SOURCE_DIR "/tests/golden/tokenizers/";
constexpr size_t kMaxSubwordBytes = 1 << 20;

using Ids = std::vector<int32_t>;
using Starts = std::vector<int64_t>;

Json golden(const std::string& name) {
  return read_json_file(kSubwordGolden + name, kMaxSubwordBytes);
}

std::unique_ptr<SubwordTokenizer> open(const Json& json, const std::string& config = "") {
  return std::make_unique<SubwordTokenizer>(
      json, TokenizerFiles{json.dump(), "t.json", config, "tokenizer_config.json"});
}

std::string random_text(std::mt19937& draw, size_t characters) {
  const char32_t kLast[] = {0x7F, 0x7F, 0x24F, 0x3FF, 0x30FF, 0x9FFF, 0x1F6FF};
  std::string text;
  for (size_t i = 0; i < characters; ++i) {
    const char32_t drawn = draw() % (kLast[draw() % std::size(kLast)] + 1);
    const char32_t character = drawn >= 0xD800 && drawn < 0xE000 ? U' ' : drawn;
    for (char c : utf8_of(character)) text += c;
  }
  return text;
}

TEST(SubwordTokenizer, GivesRandomTextsBack) {
  std::mt19937 draw(1);
  for (const char* name : {"gpt2", "llama3", "o200k", "metaspace", "prepend", "unigram"}) {
    const auto tokenizer = open_tokenizer(kSubwordGolden + name + ".json");
    for (size_t round = 0; round < 200; ++round) {
      std::string text = random_text(draw, round);
      // sentencepiece's own mark comes back as a space, and it adds one in front
      if (tokenizer->name() != "bpe") text = "a" + text;
      if (text.find("\u2581") != std::string::npos) continue;
      EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text) << name;
    }
  }
}

TEST(SubwordTokenizer, TakesAnyBytes) {
  std::mt19937 draw(2);
  for (const char* name : {"gpt2", "qwen", "metaspace", "unigram"}) {
    const auto tokenizer = open_tokenizer(kSubwordGolden + name + ".json");
    for (size_t round = 0; round < 200; ++round) {
      std::string bytes;
      for (size_t i = 0; i < round; ++i) bytes += static_cast<char>(draw());
      const PlacedTokens placed = tokenizer->encode_with_starts(bytes);
      EXPECT_EQ(placed.ids, tokenizer->encode(as_utf8(bytes))) << name;
      EXPECT_TRUE(std::is_sorted(placed.starts.begin(), placed.starts.end())) << name;
    }
  }
}

/// Words, numbers, marks and white space of every kind, added tokens, what composes, ill-formed
/// bytes.
std::string text_of_words(std::mt19937& draw, size_t words) {
  const char* const kWords[] = {"a",      "I'll", "The", "\xC3\xA9t", "e\u0301",   "\u0301",
                                "12",     "345",  "!?",  "don't",     "\xFF",      "\u2581",
                                "\u00A0", "_",    "...", "x",         "<|im_end|", "<|endoftext|>"};
  const char* const kSpaces[] = {" ",  "\n", "\r\n", "  ", " \n ",
                                 "\t", "",   "\n\n", "\r", "<|im_end|>"};
  std::string text;
  for (size_t i = 0; i < words; ++i) {
    text += kWords[draw() % std::size(kWords)];
    text += kSpaces[draw() % std::size(kSpaces)];
  }
  return text;
}

TEST(SubwordTokenizer, SeparatePartsHaveTheTokensOfTheText) {
  std::mt19937 draw(3);
  for (const char* name : {"gpt2", "llama3", "qwen", "o200k", "starcoder", "command-r", "qwen35",
                           "deepseek-llm", "deepseek-coder", "deepseek-v3", "nfkc"}) {
    Json json = golden(std::string(name) + ".json");
    Json& added = json["added_tokens"];  // llama3's strip spaces, and have some
    if (name == std::string("llama3")) added.erase(added.begin() + 1, added.end());
    const auto tokenizer = open(json);
    size_t cuts = 0;
    for (size_t round = 0; round < 400; ++round) {
      const std::string text = text_of_words(draw, round);
      Ids ids;
      std::string joined;
      for (const std::string_view part : tokenizer->separate_parts(text, draw() % 40)) {
        const Ids more = tokenizer->encode(part);
        ids.insert(ids.end(), more.begin(), more.end());
        joined += part;
        ++cuts;
      }
      EXPECT_EQ(joined, text) << name;
      EXPECT_EQ(ids, tokenizer->encode(text)) << name << ": " << text;
    }
    EXPECT_GT(cuts, 4000u) << name;
  }
}

TEST(SubwordTokenizer, TextsStayWholeWhereTokensLookBeyondWords) {
  const std::string text = "some words of a text";
  for (const char* name : {"metaspace", "prepend", "unigram", "mixed"})
    EXPECT_EQ(open_tokenizer(kSubwordGolden + name + ".json")->separate_parts(text, 4).size(), 1u)
        << name;
  const Json json = golden("o200k.json");
  EXPECT_EQ(open(json)->separate_parts(text, 4).size(), 4u);
  const auto parts_with = [&](const char* pointer, const Json& value) {
    Json changed = json;
    changed[Json::json_pointer(pointer)] = value;
    return open(changed)->separate_parts(text, 4).size();
  };
  for (const char* key : {"lstrip", "rstrip", "single_word"})
    EXPECT_EQ(parts_with((std::string("/added_tokens/1/") + key).c_str(), true), 1u) << key;
  EXPECT_EQ(parts_with("/added_tokens/1/content", "words of"), 1u);
  EXPECT_EQ(parts_with("/pre_tokenizer/pretokenizers/0/pattern/Regex", "[^x]+"), 1u);
  const Json replace = {{"type", "Replace"}, {"pattern", {{"String", "s "}}}, {"content", "z"}};
  EXPECT_EQ(parts_with("/normalizer", replace), 1u);
}

TEST(SubwordTokenizer, PlacesTokensInTheOriginalText) {
  const auto qwen = open_tokenizer(kSubwordGolden + "qwen.json");
  // "é" is composed of three bytes here; U+FFFD of one.
  const PlacedTokens placed = qwen->encode_with_starts("e\u0301\xFF<|im_end|>x");
  EXPECT_EQ(placed.starts, (Starts{0, 0, 3, 3, 3, 4, 14}));
  EXPECT_EQ(placed.ids[5], 601);
  const auto metaspace = open_tokenizer(kSubwordGolden + "metaspace.json");
  const PlacedTokens words = metaspace->encode_with_starts("the  \u65e5");
  EXPECT_EQ(words.starts.front(), 0);
  EXPECT_EQ(words.starts.back(), 7) << "the last byte of the last character";
}

TEST(SubwordTokenizer, ReadsEndBeginAndTemplateBesideIt) {
  const Json json = golden("o200k.json");
  const auto plain = open(json);
  EXPECT_EQ(plain->end_token(), 0);
  EXPECT_EQ(plain->bos(), "") << "an end token begins no chat";
  EXPECT_EQ(plain->chat_template(), "");
  const auto chat = open(json, R"({"eos_token": {"content": "<|im_end|>"}, "bos_token": null,
    "chat_template": [{"name": "tools", "template": "a"}, {"name": "default", "template": "b"}]})");
  EXPECT_EQ(chat->end_token(), 501);
  EXPECT_EQ(chat->bos(), "");
  EXPECT_EQ(chat->chat_template(), "b");
  EXPECT_EQ(chat->text_bytes(501), 0);
  EXPECT_EQ(chat->text_bytes(500), 12);
  for (const char* key : {"bos_token", "eos_token"})
    EXPECT_THROW((void)open(json, fmt::format(R"({{"{}": "</s>"}})", key)), Error) << key;
  for (const char* key : {"add_bos_token", "add_eos_token"})
    EXPECT_THROW((void)open(json, fmt::format(R"({{"{}": "yes"}})", key)), Error) << key;
  EXPECT_EQ(open(json, R"({"bos_token": "<|im_start|>"})")->bos(), "<|im_start|>");
  EXPECT_THROW((void)chat->decode(Ids{502}), Error);
  EXPECT_THROW((void)chat->decode(Ids{-1}), Error);
}

TEST(SubwordTokenizer, WritesTheFilesItRead) {
  const std::string folder = join_path(testing::TempDir(), "subword_tokenizer_test");
  remove_all(folder);
  make_folders(folder);
  open_tokenizer(kSubwordGolden + "o200k.json")->save(folder);
  EXPECT_EQ(read_file(folder + "/tokenizer.json", kMaxSubwordBytes),
            read_file(kSubwordGolden + "o200k.json", kMaxSubwordBytes));
  EXPECT_EQ(open_tokenizer(folder)->end_token(), 0);
  write_file_atomically(folder + "/tokenizer_config.json", R"({"eos_token": "<|im_end|>"} )");
  const std::string again = folder + "/again";
  make_folders(again);
  open_tokenizer(folder)->save(again);
  EXPECT_EQ(read_file(again + "/tokenizer_config.json", kMaxSubwordBytes),
            R"({"eos_token": "<|im_end|>"} )");
  EXPECT_EQ(open_tokenizer(again)->end_token(), 501);
  remove_all(folder);
}

struct Change {
  const char* file;
  const char* pointer;
  Json value;
  const char* says;
};

TEST(SubwordTokenizer, RefusesByName) {
  const Change kChanges[] = {
      {"gpt2.json", "/normalizer", Json{{"type", "Lowercase"}},
       "normalizer.type: \"Lowercase\" is"},
      {"gpt2.json", "/normalizer", Json{{"type", "Precompiled"}}, "\"Precompiled\" is not"},
      {"gpt2.json", "/pre_tokenizer", Json{{"type", "Whitespace"}}, "\"Whitespace\" is not"},
      {"o200k.json", "/pre_tokenizer/pretokenizers/0/behavior", "Removed", "\"Removed\" is not"},
      {"o200k.json", "/pre_tokenizer/pretokenizers/0/invert", true, "invert: true"},
      {"o200k.json", "/pre_tokenizer/pretokenizers/0/pattern/Regex", "\\d", "with \\d is not"},
      {"o200k.json", "/pre_tokenizer/pretokenizers/1/add_prefix_space", true, "add_prefix_space"},
      {"o200k.json", "/post_processor", Json{{"type", "BertProcessing"}}, "\"BertProcessing\""},
      {"o200k.json", "/decoder", Json{{"type", "WordPiece"}}, "decoder"},
      {"o200k.json", "/model/dropout", 0.1, "model.dropout: 0.1 is not supported"},
      {"o200k.json", "/model/type", "WordPiece", "model.type: \"WordPiece\" is not"},
      {"o200k.json", "/model/merges/0", "a b c", "model.merges[0]: \"a b c\""},
      {"o200k.json", "/model/merges/0", Json{"!!", "\""}, "not in the vocabulary"},
      {"o200k.json", "/model/vocab/!", 2, "the name or the id is taken"},
      {"o200k.json", "/model/vocab/!", -1, "model.vocab.!: -1"},
      {"o200k.json", "/added_tokens/1/id", 3, "added_tokens[1]: 3 for \"<|im_start|>\""},
      {"o200k.json", "/added_tokens/1/content", "", "added_tokens[1].content: empty"},
      {"metaspace.json", "/pre_tokenizer/split", true, "pre_tokenizer.split: true"},
      {"metaspace.json", "/model/unk_token", "<none>", "model.unk_token: \"<none>\""},
      {"metaspace.json", "/decoder/decoders/1", Json{{"type", "CTC"}}, "\"CTC\" here is not"},
      {"unigram.json", "/model/unk_id", 560, "model.unk_id: 560"},
      {"unigram.json", "/model/vocab/7", "x", "model.vocab[7]: \"x\""}};
  for (const Change& change : kChanges) {
    Json json = golden(change.file);
    json[Json::json_pointer(change.pointer)] = change.value;
    try {
      (void)open(json);
      ADD_FAILURE() << change.pointer << " " << change.value;
    } catch (const Error& error) {
      const std::string what = error.what();
      EXPECT_TRUE(what.starts_with("t.json: ")) << what;
      EXPECT_NE(what.find(change.says), std::string::npos) << what;
    }
  }
  Json json = golden("o200k.json");
  json["model"]["vocab"].erase("!");
  EXPECT_THROW((void)open(json), Error) << "a byte without a token";
}

}  // namespace
}  // namespace ng
