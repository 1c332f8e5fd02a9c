// Tokenizers of GGUF files: the ids of the tokenizer.json that they were made of, and what differs.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/files.h"
#include "base/json.h"
#include "io/gguf/token_types.h"
#include "io/gguf/tokenizer.h"
#include "support/scratch_folder.h"
#include "tokenizer/byte_tokenizer.h"

namespace ng {
namespace {

using io::GgufKeys;
using io::GgufValue;
using Ids = std::vector<int32_t>;

class GgufTokenizerRead : public ScratchFolder {
 protected:
  void SetUp() override {
    ScratchFolder::SetUp();
    make_folders(folder_);
  }
  [[nodiscard]] io::Gguf file(const GgufKeys& keys) const {
    io::GgufWriter(in("a.gguf"), keys, {}).commit();
    return io::Gguf(in("a.gguf"));
  }
  [[nodiscard]] std::unique_ptr<Tokenizer> opened(const GgufKeys& keys) const {
    return open_gguf_tokenizer(file(keys));
  }
  [[nodiscard]] std::string refused(const GgufKeys& keys) const {
    return error_of([&] { (void)opened(keys); }).substr(in("a.gguf: ").size());
  }
};

Json golden_keys(const std::string& name) {
  return read_json_file(NG_SOURCE_DIR "/tests/golden/tokenizers/" + name, 1 << 20);
}

/// Keys of a golden_keys tokenizer, of a model with more ids than it has tokens.
GgufTokenizer keys_of(const std::string& name, const Json& config = Json::object()) {
  return gguf_tokenizer(golden_keys(name + ".json"), config, "m/tokenizer.json", 800);
}

void set(GgufKeys& keys, const std::string& key, const GgufValue& value) {
  std::erase_if(keys, [&](const auto& pair) { return pair.first == "tokenizer." + key; });
  keys.emplace_back("tokenizer." + key, value);
}

constexpr const char* kMetaspace =
    "GGUF has no Metaspace: readers put a space before a text that begins with one, and behind "
    "special tokens, too";

constexpr const char* kComposes = "the tokenizer composes texts (NFC), llama.cpp does not";

// Digits of Unicode 17, which Digits knows and \p{N} does not.
constexpr const char* kYoungDigits =
    "12 \u03bf\u0395\u03bb\u03bb\u03ac\u03b4\u03b1na\u00efve  \U00011de4 \U00016ff4"
    "\u0420\u043e\u0441\u0441\u0438\u044f\u0420\u043e\u0441\u0441\u0438\u044f"
    "\u0420\u043e\u0441\u0441\u0438\u044f";

// Of a golden_keys tokenizer: what its export says, and the cases that become others for that
// reason.
TEST_F(GgufTokenizerRead, GivesTheGoldenIds) {
  struct Case {
    std::string name;
    std::vector<std::string> notes, others;
  };
  const std::vector<std::string> spaces = {" ", "  ", "   leading", "  two", "a <s> b"};
  const Case kCases[] = {
      {"gpt2", {}, {}},
      {"llama3",
       {"GGUF cannot say of added tokens: single_word of \"word\", lstrip of \"<mask>\""},
       {"word words a word. <mask> x<mask>"}},
      {"qwen", {kComposes}, {}},
      {"starcoder", {}, {kYoungDigits}},
      {"command-r", {kComposes}, {kYoungDigits}},
      {"qwen35", {kComposes}, {}},
      {"deepseek-llm", {}, {}},
      {"deepseek-coder", {}, {}},
      {"deepseek-v3", {}, {}},
      {"o200k", {}, {}},
      {"metaspace", {kMetaspace}, spaces},
      {"prepend", {}, {}},
      {"unigram",
       {kMetaspace,
        "the Unigram of llama.cpp has no bytes: a character without a token is unknown there"},
       spaces}};
  for (const auto& [name, notes, others] : kCases) {
    const GgufTokenizer written = keys_of(name);
    EXPECT_EQ(written.notes, notes) << name;
    const auto read = opened(written.keys);
    read->save(folder_);
    const auto saved = open_tokenizer(folder_);
    std::vector<std::string> differ;
    for (const Json& one : golden_keys(name + ".cases.json")) {
      const auto text = one.at("text").get<std::string>();
      const Ids ids = read->encode(text);
      EXPECT_EQ(saved->encode(text), ids) << name << ' ' << text;
      if (ids != one.at("ids").get<Ids>()) differ.push_back(text);
      EXPECT_EQ(read->decode_text(one.at("ids").get<Ids>()), one.at("decoded").get<std::string>())
          << name << ' ' << text;
    }
    std::ranges::sort(differ);
    EXPECT_EQ(differ, std::vector<std::string>(others.begin(), others.end())) << name;
  }
}

/// The ids that the library tokenizers 0.23 gives the added tokens of a file: those of its
/// vocabulary, else counted on from the larger of its size and what was given last.
std::vector<int64_t> ids_by_counting(const Json& tokenizer) {
  const Json& vocab = tokenizer.at("model").at("vocab");
  auto next = std::ssize(vocab);
  std::vector<int64_t> ids;
  for (const Json& token : tokenizer.at("added_tokens")) {
    const auto found = vocab.find(token.at("content"));
    ids.push_back(found != vocab.end() ? found->get<int64_t>() : next);
    next = std::max(next, ids.back() + 1);
  }
  return ids;
}

// Wherever they lie: behind the others, before them, among them, behind ids without a token.
TEST_F(GgufTokenizerRead, AddedTokensKeepTheirIdsInOtherReaders) {
  const GgufTokenizer written = keys_of("gpt2");
  const io::Gguf plain = file(written.keys);
  const std::vector<std::string> texts = plain.texts("tokenizer.ggml.tokens");
  const std::vector<int64_t> types = plain.integers("tokenizer.ggml.token_type");
  const auto count = std::ssize(texts);
  for (const std::vector<int64_t>& added : {std::vector<int64_t>{},
                                            {0, 1},
                                            {3, 90, 400},
                                            {count, count + 1},
                                            {0, count},
                                            {count + 40}}) {
    std::vector<std::string> tokens;
    std::vector<int32_t> kinds;
    const auto add = [&](std::string text, int32_t kind) {
      tokens.push_back(std::move(text));
      kinds.push_back(kind);
    };
    const auto is_added = [&](int64_t id) {
      return std::find(added.begin(), added.end(), id) != added.end();
    };
    for (int64_t from = 0; from < count || std::ssize(tokens) <= count + 41;) {
      const auto id = std::ssize(tokens);
      const auto own = static_cast<size_t>(from);
      if (is_added(id))
        add(fmt::format("<added{}>", id), id % 2 == 0 ? kControlToken : kUserDefinedToken);
      else if (from < count)
        add(texts[own], static_cast<int32_t>(types[own]));
      else
        add(fmt::format("[PAD{}]", id), kUnusedToken);
      if (!is_added(id)) ++from;
    }
    GgufKeys keys = written.keys;
    set(keys, "ggml.tokens", GgufValue::of_texts(tokens));
    set(keys, "ggml.token_type", GgufValue::of_i32s(kinds));
    const auto read = opened(keys);
    read->save(folder_);
    const Json saved = read_json_file(in("tokenizer.json"), 1 << 20);
    std::vector<int64_t> want;
    for (const Json& token : saved.at("added_tokens")) want.push_back(token.at("id"));
    EXPECT_EQ(ids_by_counting(saved), want);
    for (const int64_t id : added) {
      const std::string text = fmt::format("a<added{}> b", id);
      EXPECT_EQ(read->encode(text).at(1), id);
      EXPECT_EQ(open_tokenizer(folder_)->encode(text), read->encode(text));
    }
  }
}

TEST_F(GgufTokenizerRead, WritesWhatTransformersReads) {
  const Json config = {{"bos_token", "<s>"}, {"eos_token", "</s>"}, {"chat_template", "{{ x }}"}};
  GgufTokenizer written = keys_of("prepend", config);
  set(written.keys, "ggml.add_bos_token", GgufValue::of_boolean(true));
  opened(written.keys)->save(folder_);
  const Json saved = read_json_file(in("tokenizer_config.json"), 1 << 20);
  EXPECT_EQ(saved.at("bos_token"), "<s>");
  EXPECT_EQ(saved.at("eos_token"), "</s>");
  EXPECT_EQ(saved.at("unk_token"), "<unk>");
  EXPECT_EQ(saved.at("chat_template"), "{{ x }}");
  EXPECT_EQ(saved.at("tokenizer_class"), "PreTrainedTokenizerFast");
  const Json tokenizer = read_json_file(in("tokenizer.json"), 1 << 20);
  const Json bos = {{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}};
  EXPECT_EQ(tokenizer.at("post_processor").at("single")[0], bos);
  EXPECT_EQ(tokenizer.at("post_processor").at("single").size(), 2u);
  EXPECT_EQ(tokenizer.at("post_processor").at("special_tokens").at("<s>").at("ids"),
            Json::array({1}));
  EXPECT_EQ(tokenizer.at("added_tokens").size(), 3u);
  const auto again = open_tokenizer(folder_);
  EXPECT_EQ(again->end_token(), 2);
  EXPECT_EQ(again->bos(), "<s>");
  EXPECT_EQ(again->chat_template(), "{{ x }}");
}

TEST_F(GgufTokenizerRead, ChatTemplatesComeByTheirNames) {
  GgufTokenizer written = keys_of("gpt2");
  set(written.keys, "chat_template.tool_use", GgufValue::of_text("t"));
  set(written.keys, "chat_template", GgufValue::of_text("d"));
  const auto tokenizer = opened(written.keys);
  EXPECT_EQ(tokenizer->chat_template(), "d");
  tokenizer->save(folder_);
  EXPECT_EQ(read_file(in("chat_template.jinja"), 9), "d");
  EXPECT_EQ(read_file(in("additional_chat_templates/tool_use.jinja"), 9), "t");
  set(written.keys, "chat_template.../x", GgufValue::of_text("t"));
  EXPECT_EQ(refused(written.keys),
            "tokenizer.chat_template.../x: \"../x\" is no name of a template: a name without '/' "
            "or '.' in front, as \"default\" or \"tool_use\"");
}

// Each of its digits is a piece.
TEST_F(GgufTokenizerRead, KnowsSmollm) {
  GgufTokenizer written = keys_of("gpt2");
  set(written.keys, "ggml.pre", GgufValue::of_text("smollm"));
  const auto gpt2 = opened(keys_of("gpt2").keys), smollm = opened(written.keys);
  EXPECT_EQ(smollm->encode("In 1895,"), gpt2->encode("In 1895,"));
  const Ids digits = smollm->encode("1895");
  EXPECT_EQ(digits.size(), 4u);
  smollm->save(folder_);
  const auto back = gguf_tokenizer(read_json_file(in("tokenizer.json"), 1 << 20), Json::object(),
                                   "m/tokenizer.json", 800);
  EXPECT_EQ(file(back.keys).text("tokenizer.ggml.pre"), "smollm");
}

// By which name each is written; names of the same pattern go along where they were read.
TEST_F(GgufTokenizerRead, PatternsHaveTheNamesOfLlamaCpp) {
  struct Case {
    const char *name, *pre;
    Json config = Json::object();
  };
  const Case kCases[] = {
      {"gpt2", "gpt-2"},
      {"starcoder", "smollm"},
      {"starcoder", "starcoder", {{"clean_up_tokenization_spaces", true}}},
      {"starcoder", "refact", {{"gguf_pre", "refact"}}},
      {"starcoder", "smollm", {{"gguf_pre", "gpt-2"}}},
      {"command-r", "command-r"},
      {"qwen35", "qwen35"},
      {"deepseek-llm", "deepseek-llm"},
      {"deepseek-coder", "deepseek-coder"},
      {"deepseek-v3", "deepseek-v3"},
  };
  for (const Case& each : kCases)
    EXPECT_EQ(file(keys_of(each.name, each.config).keys).text("tokenizer.ggml.pre"), each.pre);
  for (const char* pre : {"starcoder", "refact", "llama3", "deepseek-r1-qwen", "default"}) {
    GgufTokenizer written = keys_of("gpt2");
    set(written.keys, "ggml.pre", GgufValue::of_text(pre));
    opened(written.keys)->save(folder_);
    const auto back = gguf_tokenizer(folder_, 800);
    EXPECT_EQ(file(back.keys).text("tokenizer.ggml.pre"), pre);
  }
}

// DeepSeek's own file cuts every digit off; llama.cpp does not, and no token there tells.
TEST_F(GgufTokenizerRead, DeepSeekLlmMayCutDigits) {
  Json json = golden_keys("deepseek-llm.json");
  json["pre_tokenizer"]["pretokenizers"][5] = {{"type", "Digits"}, {"individual_digits", true}};
  const GgufTokenizer written = gguf_tokenizer(json, Json::object(), "m/tokenizer.json", 800);
  EXPECT_EQ(file(written.keys).text("tokenizer.ggml.pre"), "deepseek-llm");
  EXPECT_EQ(written.notes, std::vector<std::string>{
                               "readers of deepseek-llm take digits together: ids differ where "
                               "a token has several"});
}

// As llama.cpp then does: [\p{P}$+<=>^~|]+, GPT-2's pattern, \p{N}+, three digits.
TEST_F(GgufTokenizerRead, CutsByTheDefaultWhereNoPatternIsNamed) {
  GgufTokenizer written = keys_of("starcoder");
  std::erase_if(written.keys, [](const auto& pair) { return pair.first == "tokenizer.ggml.pre"; });
  EXPECT_TRUE(note_of_pattern(file(written.keys)));
  const auto unnamed = opened(written.keys);
  set(written.keys, "ggml.pre", GgufValue::of_text("default"));
  EXPECT_FALSE(note_of_pattern(file(written.keys)));
  const auto named = opened(written.keys);
  Json json = golden_keys("starcoder.json");
  Json steps = Json::array();
  for (const char* regex :
       {R"([\p{P}\$\+<=>\^~\|]+)",
        R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S))", R"(\p{N}+)",
        R"([0-9][0-9][0-9])"})
    steps.push_back({{"type", "Split"},
                     {"pattern", {{"Regex", regex}}},
                     {"behavior", "Isolated"},
                     {"invert", false}});
  steps.push_back({{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}});
  json["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", steps}};
  write_file_atomically(in("tokenizer.json"), json_text(json, 0));
  const auto want = open_tokenizer(in("tokenizer.json"));
  for (const Json& one : golden_keys("starcoder.cases.json")) {
    const auto text = one.at("text").get<std::string>();
    EXPECT_EQ(unnamed->encode(text), want->encode(text)) << text;
    EXPECT_EQ(named->encode(text), want->encode(text)) << text;
  }
}

TEST_F(GgufTokenizerRead, BytesMayLeaveIdsOver) {
  const GgufTokenizer written = gguf_tokenizer(parse_json(byte_tokenizer_json(), ""),
                                               Json::object(), "m/tokenizer.json", 300);
  EXPECT_EQ(opened(written.keys)->name(), "bytes");
}

TEST_F(GgufTokenizerRead, NamesWhatIsWrong) {
  const auto changed = [&](const std::string& name, const std::string& key,
                           const GgufValue& value) {
    GgufKeys keys = keys_of(name).keys;
    set(keys, key, value);
    return refused(keys);
  };
  EXPECT_EQ(refused({}), "tokenizer.ggml.model: is none: a file with a tokenizer");
  EXPECT_EQ(changed("gpt2", "ggml.model", GgufValue::of_text("rwkv")),
            "tokenizer.ggml.model: \"rwkv\" is not supported: gpt2, llama or t5");
  EXPECT_EQ(changed("gpt2", "ggml.pre", GgufValue::of_text("falcon")),
            "tokenizer.ggml.pre: \"falcon\" is not supported: gpt-2, llama-bpe, llama3, llama-v3, "
            "qwen2, deepseek-r1-qwen, qwen35, gpt-4o, smollm, starcoder, refact, command-r, "
            "deepseek-llm, deepseek-coder, deepseek-v3");
  EXPECT_EQ(changed("gpt2", "ggml.token_type", GgufValue::of_i32s(std::vector<int32_t>{1})),
            "tokenizer.ggml.token_type: 1 of them: 800, as there are tokens");
  EXPECT_EQ(changed("gpt2", "ggml.tokens", GgufValue::of_texts({})),
            "tokenizer.ggml.tokens: is empty: a list of tokens");
  EXPECT_EQ(changed("gpt2", "ggml.merges", GgufValue::of_texts({"a"})),
            "model.merges[0]: \"a\": \"a b\" or [\"a\", \"b\"]");
  EXPECT_EQ(changed("gpt2", "ggml.eos_token_id", GgufValue::of_u32(800)),
            "tokenizer.ggml.eos_token_id: 800: a whole number from 0 to 799");
  EXPECT_EQ(changed("prepend", "ggml.scores", GgufValue::of_f32s(std::vector<float>{1})),
            "tokenizer.ggml.scores: 1 of them: 800, as there are tokens");
  EXPECT_EQ(changed("prepend", "ggml.scores", GgufValue::of_u32(1)),
            "tokenizer.ggml.scores: is no list of f32: an array of f32");
  GgufKeys keys = keys_of("prepend").keys;
  set(keys, "ggml.tokens", GgufValue::of_texts({"<unk>", std::string(1025, 'a')}));
  set(keys, "ggml.token_type", GgufValue::of_i32s(std::vector<int32_t>{2, 1}));
  set(keys, "ggml.scores", GgufValue::of_f32s(std::vector<float>{0, -1}));
  EXPECT_EQ(refused(keys), "tokenizer.ggml.tokens: a token of 1025 bytes: at most 1024");
  EXPECT_EQ(changed("unigram", "ggml.remove_extra_whitespaces", GgufValue::of_boolean(true)),
            "tokenizer.ggml.remove_extra_whitespaces: true is not supported: false");
  EXPECT_EQ(
      changed("unigram", "ggml.precompiled_charsmap", GgufValue::of_i32s(std::vector<int32_t>{1})),
      "tokenizer.ggml.precompiled_charsmap: is not supported: a tokenizer that does not "
      "normalize");
}

}  // namespace
}  // namespace ng
