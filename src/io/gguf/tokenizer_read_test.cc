// Tokenizers of GGUF files: the ids of the tokenizer.json that they were made of, and what differs.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/files.h"
#include "base/json.h"
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
      {"qwen", {"the tokenizer composes texts (NFC), llama.cpp does not"}, {}},
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
            "tokenizer.ggml.pre: \"falcon\" is not supported: gpt-2, llama-bpe, qwen2, gpt-4o or "
            "smollm");
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
