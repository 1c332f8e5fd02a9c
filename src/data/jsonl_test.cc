// Which tokens of JSON lines are targets: by hand for every kind of document, and as transformers'
// apply_chat_template says.
#include "data/jsonl.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <sstream>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "data/memory_source.h"
#include "data/preference_pairs.h"
#include "tokenizer/byte_tokenizer.h"

namespace ng {
namespace {

/// What a tokenizer of later times has: tokens of more than one byte, an end token, a bos. A pair
/// of bytes is a token of that many bytes, so is a last byte alone.
class PairTokenizer final : public Tokenizer {
 public:
  static constexpr int32_t kEnd = 'E';

  [[nodiscard]] std::string_view name() const override { return "pairs"; }
  [[nodiscard]] int64_t vocab() const override { return 256; }
  [[nodiscard]] std::optional<int32_t> end_token() const override { return kEnd; }
  [[nodiscard]] std::string_view bos() const override { return "^"; }
  [[nodiscard]] std::string decode(std::span<const int32_t> ids) const override {
    return std::string(2 * ids.size(), '?');
  }
  [[nodiscard]] std::string decode_text(std::span<const int32_t> ids) const override {
    return decode(ids);
  }
  [[nodiscard]] int64_t text_bytes(int32_t id) const override { return id == kEnd ? 0 : 2; }
  void save(const std::string&) const override {}

 private:
  [[nodiscard]] PlacedTokens encoded(std::string_view text, SpecialTokens, bool) const override {
    PlacedTokens tokens;
    for (size_t at = 0; at < text.size(); at += 2) {
      tokens.ids.push_back(text[at]);
      tokens.starts.push_back(static_cast<int64_t>(at));
    }
    return tokens;
  }
};

/// Tokens and masks of lines, as text.
struct Shown {
  std::string tokens, mask;
  bool operator==(const Shown&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Shown& shown) {
  return out << '"' << shown.tokens << "\"\n\"" << shown.mask << '"';
}

std::vector<float> mask_of(const TokenSource& source) {
  std::vector<float> mask(static_cast<size_t>(source.tokens()), -1.0f);
  source.read_mask(0, mask);
  return mask;
}

Shown shown(std::string_view lines, const DocumentRules& rules = {},
            const Tokenizer& tokenizer = ByteTokenizer()) {
  const MemorySource source(tokens_of_jsonl(lines, "t.jsonl", tokenizer, rules), tokenizer);
  std::vector<int32_t> ids(static_cast<size_t>(source.tokens()));
  source.read(0, ids);
  Shown found;
  for (const int32_t id : ids) found.tokens += static_cast<char>(id);
  for (const float value : mask_of(source)) found.mask += value == 1.0f ? '1' : '0';
  return found;
}

TEST(JsonlMasks, OfATextAllTokens) {
  EXPECT_EQ(shown(R"({"text": "a\nb"})"), (Shown{"a\nb\xFF", "1111"}));
  EXPECT_EQ(shown(R"({"body": "é"})", {.text_key = "body"}), (Shown{"é\xFF", "111"}));
  EXPECT_EQ(shown(R"({"text": ""})"), (Shown{"\xFF", "1"}));
}

TEST(JsonlMasks, SpecialTokensMayBeTextButInChats) {
  const DocumentRules rules{.chat = ChatTemplate::chatml, .special = SpecialTokens::text};
  EXPECT_EQ(shown(R"({"text": "a<|endoftext|>"})").tokens, "a\xFF\xFF");
  EXPECT_EQ(shown(R"({"text": "a<|endoftext|>"})", rules).tokens, "a<|endoftext|>\xFF");
  EXPECT_EQ(shown(R"({"prompt": "<|endoftext|>", "completion": "b"})", rules),
            (Shown{"<|endoftext|>b\xFF", "000000000000011"}));
  const std::string chat = R"({"messages": [{"role": "user", "content": "<|endoftext|>"}]})";
  EXPECT_EQ(shown(chat, rules), shown(chat, {.chat = ChatTemplate::chatml}));
}

TEST(JsonlMasks, OfAPromptNoneOfACompletionAll) {
  EXPECT_EQ(shown(R"({"prompt": "2+2=", "completion": "4.", "id": 7})"),
            (Shown{"2+2=4.\xFF", "0000111"}));
  EXPECT_EQ(shown(R"({"prompt": "", "completion": "x"})"), (Shown{"x\xFF", "11"}));
  EXPECT_EQ(shown(R"({"prompt": "x", "completion": ""})"), (Shown{"x\xFF", "01"}));
}

TEST(JsonlMasks, OfAChatWhatTheAssistantSaysAndTheClosingMarker) {
  EXPECT_EQ(shown(R"({"messages": [{"role": "user", "content": "Hi"},)"
                  R"({"role": "assistant", "content": " Ho "}]})",
                  {.chat = ChatTemplate::chatml}),
            (Shown{"<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n Ho <|im_end|>\n",
                   "000000000000"
                   "00000"
                   "00"
                   "0000000000"
                   "0"
                   "000000000000"
                   "0000000000"
                   "1111"
                   "1111111111"
                   "0"}));
  EXPECT_EQ(shown(R"({"messages": [{"role": "assistant", "content": " Ho\n"},)"
                  R"({"role": "user", "content": "\u3000Hi"}]})",
                  {.chat = ChatTemplate::llama3}),
            (Shown{"\xFF<|start_header_id|>assistant<|end_header_id|>\n\nHo<|eot_id|>"
                   "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>",
                   "0"
                   "0000000000000000000"
                   "000000000"
                   "00000000000000000"
                   "00"
                   "11"
                   "1111111111"
                   "0000000000000000000"
                   "0000"
                   "00000000000000000"
                   "00"
                   "00"
                   "0000000000"}));
}

TEST(JsonlMasks, DocumentsFollowEachOtherAndKindsMix) {
  EXPECT_EQ(shown("{\"text\": \"ab\"}\r\n\n{\"prompt\": \"c\", \"completion\": \"d\"}\n"
                  "  \n{\"messages\": [{\"role\": \"user\", \"content\": \"e\"}]}",
                  {.chat = ChatTemplate::chatml}),
            (Shown{"ab\xFF"
                   "cd\xFF<|im_start|>user\ne<|im_end|>\n",
                   "111011"
                   "000000000000"
                   "00000"
                   "0"
                   "0000000000"
                   "0"}));
}

// The tokens "p?", "+c" (its first byte is the prompt's), "xy".
TEST(JsonlMasks, ATokenCountsWhereItsFirstByteDoes) {
  const PairTokenizer pairs;
  EXPECT_EQ(shown(R"({"prompt": "p?+", "completion": "cxy"})", {}, pairs), (Shown{"p+xE", "0011"}));
  EXPECT_EQ(shown(R"({"prompt": "p?", "completion": "cxy"})", {}, pairs), (Shown{"pcyE", "0111"}));
  EXPECT_EQ(shown("{\"text\": \"abc\"}\n{\"text\": \"\"}", {}, pairs), (Shown{"acEE", "1111"}));
  const MaskedTokens chat =
      tokens_of(read_document(R"({"messages": [{"role": "assistant", "content": "a"}]})",
                              {.chat = ChatTemplate::llama3}, pairs.bos(), ""),
                pairs);
  EXPECT_EQ((std::vector(chat.ids.begin(), chat.ids.begin() + 3)),
            (std::vector<int32_t>{'^', '|', 't'}))
      << "the bos, and no end token behind a chat";
  EXPECT_EQ(chat.ids.back(), '>');
  std::vector<uint8_t> mask(24, 0);
  mask.resize(30, 1);
  EXPECT_EQ(chat.is_target, mask);
}

/// That of a golden file without merges: it spells as many tokens as there are bytes.
std::unique_ptr<Tokenizer> open_spelling(const std::string& golden) {
  Json json = Json::parse(read_file(golden, 1 << 20));
  json["model"]["merges"] = Json::array();
  const std::string path = testing::TempDir() + "spelling.json";
  write_file_atomically(path, json.dump());
  return open_tokenizer(path);
}

// Pieces of text are no marker, not even those of a byte each, which only "bytes" may have.
TEST(Chats, AreRefusedWhereTheTokenizerLacksAMarker) {
  const std::string chat = R"({"messages": [{"role": "assistant", "content": "a"}]})";
  const std::string pairs = R"({"prompt": [{"role": "user", "content": "a"}],
      "chosen": [{"role": "assistant", "content": "b"}],
      "rejected": [{"role": "assistant", "content": "c"}]})";
  const std::string pair = std::regex_replace(pairs, std::regex("\n *"), " ");
  const auto said_by = [&](const Tokenizer& tokenizer, ChatTemplate format, bool is_pair) {
    const DocumentRules rules = {.chat = format};
    try {
      if (is_pair)
        PreferencePairs("t").add(pair, "t.jsonl", tokenizer, rules);
      else
        (void)tokens_of_jsonl("{\"text\": \"a\"}\n" + chat, "t.jsonl", tokenizer, rules);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("read");
  };
  const auto golden = [](const char* name) {
    return fmt::format("{}/tests/golden/tokenizers/{}.json", NG_SOURCE_DIR, name);
  };
  const auto said = [&](const char* tokenizer, ChatTemplate format, bool is_pair) {
    return said_by(*open_tokenizer(golden(tokenizer)), format, is_pair);
  };
  EXPECT_EQ(
      said("gpt2", ChatTemplate::chatml, false),
      "t.jsonl:2: a chat in chatml, for whose marker <|im_start|> the tokenizer has no token: "
      "it would be cut into 8 pieces of text: a tokenizer whose tokens have it; \"bytes\", which "
      "spells every marker; or another data.template");
  EXPECT_EQ(said("gpt2", ChatTemplate::qwen3, true).substr(0, 26), "t.jsonl:1: a chat in qwen3");
  for (const bool is_pair : {false, true}) {
    EXPECT_EQ(said("qwen", ChatTemplate::chatml, is_pair), "read");
    EXPECT_EQ(said("qwen", ChatTemplate::qwen2_5, is_pair), "read");
    EXPECT_NE(said("qwen", ChatTemplate::llama3, is_pair).find("<|start_header_id|>"),
              std::string::npos);
    EXPECT_NE(said("unigram", ChatTemplate::chatml, is_pair).find("<|im_start|>"),
              std::string::npos)
        << "one unknown token is no marker";
    EXPECT_NE(said_by(*open_spelling(golden("gpt2")), ChatTemplate::chatml, is_pair)
                  .find("for whose marker <|im_start|> the tokenizer has no token: it would be cut "
                        "into 12 pieces"),
              std::string::npos);
    EXPECT_EQ(said_by(ByteTokenizer(), ChatTemplate::chatml, is_pair), "read");
  }
}

TEST(JsonlMasks, BytesAreThoseBehindTargets) {
  const auto source = [](const char* line, const Tokenizer& tokenizer) {
    return MemorySource(tokens_of_jsonl(line, "", tokenizer, {}), tokenizer);
  };
  const MemorySource bytes = source(R"({"prompt": "abc", "completion": "de"})", ByteTokenizer());
  EXPECT_EQ(bytes.target_tokens(0, 6), 3);
  EXPECT_EQ(bytes.target_bytes(0, 6), 2) << "nothing is written at the end token";
  EXPECT_EQ(bytes.target_bytes(4, 1), 1);
  const MemorySource pairs = source(R"({"prompt": "ab", "completion": "cdef"})", PairTokenizer());
  EXPECT_EQ(pairs.target_tokens(0, 4), 3);
  EXPECT_EQ(pairs.target_bytes(0, 4), 4);
}

// Ids of the other tokenizer of the file are that tokenizer's test; its text is the same.
TEST(JsonlMasks, ChatsAreThoseOfTransformers) {
  const std::string folder = NG_SOURCE_DIR "/tests/golden/chat/";
  std::vector<std::string> lines;
  std::istringstream chats(read_file(folder + "chat.jsonl", 1 << 20));
  for (std::string line; std::getline(chats, line);) lines.push_back(line);
  int compared = 0;
  for (const Json& want : read_json_file(folder + "expected.json", 1 << 20)) {
    const DocumentRules rules = {.chat = want["template"] == "llama3" ? ChatTemplate::llama3
                                                                      : ChatTemplate::chatml};
    const std::string& line = lines.at(want["line"].get<size_t>());
    EXPECT_EQ(read_document(line, rules, "<|endoftext|>", "").text, want["text"]);
    if (want["tokenizer"] != "bytes") continue;
    const Shown have = shown(line, rules);
    Shown expected;
    for (size_t i = 0; i < want["ids"].size(); ++i) {
      expected.tokens += static_cast<char>(want["ids"][i].get<int>());
      expected.mask += want["mask"][i] == 1 ? '1' : '0';
    }
    EXPECT_EQ(have, expected) << want["template"] << ' ' << want["line"];
    ++compared;
  }
  EXPECT_EQ(compared, 8);
}

TEST(ChatTemplates, AreTheTextsThatTransformersRan) {
  Json jinja = read_json_file(NG_SOURCE_DIR "/tests/golden/chat/templates.json", 1 << 20);
  Json qwen = read_json_file(NG_SOURCE_DIR "/tests/golden/chat/qwen_templates.json", 1 << 20);
  jinja.update(qwen);
  for (const auto& [name, format] : kChatTemplates) {
    if (format == ChatTemplate::none) continue;
    EXPECT_EQ(jinja_of(format), jinja[std::string(name)].get<std::string>());
    EXPECT_EQ(chat_template_of(jinja_of(format)), format);
  }
  EXPECT_EQ(chat_template_of("{{ messages }}"), ChatTemplate::none);
}

TEST(Trimmed, TakesWhatPythonTakesForWhiteSpace) {
  EXPECT_EQ(trimmed(" \t\r\n a b\x1f\xC2\x85 \xE2\x80\x8A"), "a b");
  EXPECT_EQ(trimmed("\xE2\x80\x8B"), "\xE2\x80\x8B") << "a zero-width space is none";
  EXPECT_EQ(trimmed("\xE3\x80\x80 \xE1\x9A\x80"), "");
  EXPECT_EQ(trimmed("\xC3\x85"), "\xC3\x85") << "the last byte of a letter is no space";
}

TEST(JsonlErrors, NameFileLineKeyAndRemedy) {
  struct Case {
    const char* line;
    const char* says;
  };
  const Case kCases[] = {
      {"{\"text\": \"a\"", "t.jsonl:3: not valid JSON: "},
      {"{\"text\": \"\xFF\"}", "t.jsonl:3: not valid JSON: "},
      {"[1]", "t.jsonl:3: [1] is not an object"},
      {"{\"text\": 5}", "t.jsonl:3: text: 5: a string"},
      {"{\"txt\": \"a\"}",
       "t.jsonl:3: no kind of document: \"text\", or \"prompt\" and \"completion\", or "
       "\"messages\""},
      {"{\"text\": \"a\", \"prompt\": \"b\"}", "t.jsonl:3: more than one kind of document: "},
      {"{\"prompt\": \"a\"}", "t.jsonl:3: completion: missing"},
      {"{\"completion\": \"a\"}", "t.jsonl:3: prompt: missing"},
      {"{\"prompt\": [], \"completion\": \"\"}", "t.jsonl:3: prompt: []: a string"},
      {"{\"prompt\": \"a\", \"completion\": null}", "t.jsonl:3: completion: missing"},
      {"{\"messages\": {}}", "t.jsonl:3: messages: {}: a list of {\"role\": "},
      {"{\"messages\": []}", "t.jsonl:3: messages: []: a list of {\"role\": "},
      {"{\"messages\": [\"a\"]}", "t.jsonl:3: messages[0]: \"a\" is not an object"},
      {"{\"messages\": [{\"role\": \"user\"}]}", "t.jsonl:3: messages[0].content: missing"},
      {"{\"messages\": [{\"content\": \"a\"}]}", "t.jsonl:3: messages[0].role: missing"},
      {"{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"asistant\","
       "\"content\": \"b\"}]}",
       "t.jsonl:3: messages[1].role: \"asistant\": \"system\", \"developer\", \"user\", "},
      {"{\"text\": \"a\", \"text\": \"b\"}", "t.jsonl:3: \"text\": is given twice"},
  };
  for (const Case& wrong : kCases) {
    try {
      (void)shown(std::string("{\"text\": \"a\"}\n\n") + wrong.line + "\n",
                  {.chat = ChatTemplate::llama3});
      ADD_FAILURE() << wrong.line;
    } catch (const Error& error) {
      EXPECT_TRUE(std::string_view(error.what()).starts_with(wrong.says)) << error.what();
    }
  }
}

// Lines are read by several threads.
TEST(JsonlErrors, OfSeveralTheFirstLineIsNamed) {
  std::string lines;
  for (int i = 0; i < 40; ++i) lines += "{\"text\": \"a\"}\n";
  for (int i = 0; i < 40; ++i) lines += "{\"text\": 5}\n";
  for (int attempt = 0; attempt < 20; ++attempt) {
    try {
      (void)shown(lines);
      ADD_FAILURE();
    } catch (const Error& error) {
      ASSERT_EQ(error.parts().place, "t.jsonl:41");
    }
  }
}

TEST(JsonlErrors, AChatNeedsATemplate) {
  for (const bool has_own : {false, true}) {
    try {
      (void)shown("{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}", {},
                  ByteTokenizer(has_own ? NamedTemplates{{"default", "{{ messages }}"}}
                                        : NamedTemplates()));
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()),
                fmt::format("t.jsonl:1: messages: a chat, and {}: data.template: chatml, llama3, "
                            "qwen2.5 or qwen3",
                            has_own ? "the model's own template is none that is known here"
                                    : "no template that says how it becomes text"));
    }
  }
}

}  // namespace
}  // namespace ng
