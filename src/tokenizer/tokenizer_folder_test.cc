// Chat templates and special tokens wherever a folder has them.
#include "tokenizer/tokenizer_folder.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "support/scratch_folder.h"
#include "tokenizer/special_ids.h"

namespace ng {
namespace {

class TokenizerFolder : public testing::Test {
 protected:
  void SetUp() override {
    remove_all(folder_);
    make_folders(folder_);
    write("tokenizer.json", read_file(NG_SOURCE_DIR "/tests/golden/tokenizers/qwen.json", 1 << 20));
  }
  void TearDown() override { remove_all(folder_); }

  [[nodiscard]] std::string in(const std::string& name) const { return join_path(folder_, name); }
  void write(const std::string& name, const std::string& text) const {
    const size_t slash = name.rfind('/');
    if (slash != std::string::npos) make_folders(in(name.substr(0, slash)));
    write_file_atomically(in(name), text);
  }
  [[nodiscard]] std::string refused() const {
    try {
      (void)open_tokenizer(folder_);
    } catch (const Error& error) {
      return std::string(error.what()).substr(folder_.size() + 1);
    }
    return "accepted";
  }
  [[nodiscard]] std::string chat() const {
    return std::string(open_tokenizer(folder_)->chat_template());
  }

  const std::string folder_ = join_path(testing::TempDir(), "tokenizer_folder_test");
};

// As transformers 5.24 reads them: files come before tokenizer_config.json.
TEST_F(TokenizerFolder, TemplatesAreFoundInEveryPlace) {
  EXPECT_EQ(chat(), "");
  write("chat_template.json", R"({"chat_template": "json"})");
  EXPECT_EQ(chat(), "json");
  write("tokenizer_config.json", R"({"chat_template": "config"})");
  EXPECT_EQ(chat(), "config");
  write("tokenizer_config.json", R"({"chat_template": [{"name": "rag", "template": "r"},
    {"name": "default", "template": "list"}]})");
  EXPECT_EQ(chat(), "list");
  write("chat_templates/default.jinja", "older folder");
  EXPECT_EQ(chat(), "older folder");
  write("additional_chat_templates/default.jinja", "folder");
  write("additional_chat_templates/notes.txt", "no template");
  EXPECT_EQ(chat(), "folder");
  write("chat_template.jinja", "file\r\n");
  EXPECT_EQ(chat(), "file\r\n");
}

TEST_F(TokenizerFolder, TemplatesAreWrittenToEveryPlace) {
  write("tokenizer_config.json", R"({"eos_token": "<|im_end|>",  "chat_template": null})");
  write("chat_template.jinja", "a {{ x }}\n");
  write("additional_chat_templates/tool_use.jinja", "b");
  make_folders(in("out"));
  open_tokenizer(folder_)->save(in("out"));
  EXPECT_EQ(read_file(in("out/chat_template.jinja"), 99), "a {{ x }}\n");
  EXPECT_EQ(read_file(in("out/additional_chat_templates/tool_use.jinja"), 99), "b");
  const Json config = read_json_file(in("out/tokenizer_config.json"), 1 << 20);
  const Json both = {{{"name", "default"}, {"template", "a {{ x }}\n"}},
                     {{"name", "tool_use"}, {"template", "b"}}};
  EXPECT_EQ(config, Json({{"eos_token", "<|im_end|>"}, {"chat_template", both}}));
  make_folders(in("again"));
  open_tokenizer(in("out"))->save(in("again"));
  for (const char* name : {"tokenizer_config.json", "chat_template.jinja"})
    EXPECT_EQ(read_file(join_path(in("again"), name), 999),
              read_file(join_path(in("out"), name), 999));
}

TEST_F(TokenizerFolder, AConfigurationThatHasTheTemplateStaysAsItIs) {
  const std::string config = R"({"chat_template":  "x", "eos_token": "<|im_end|>"} )";
  write("tokenizer_config.json", config);
  make_folders(in("out"));
  open_tokenizer(folder_)->save(in("out"));
  EXPECT_EQ(read_file(in("out/tokenizer_config.json"), 999), config);
  EXPECT_EQ(read_file(in("out/chat_template.jinja"), 99), "x");
}

TEST_F(TokenizerFolder, AnotherDefaultLeavesTheOthers) {
  write("tokenizer_config.json", R"({"chat_template": [{"name": "default", "template": "d"},
    {"name": "rag", "template": "r"}]})");
  make_folders(in("out"));
  open_tokenizer(folder_)->save(in("out"));
  replace_default_template(in("out"), "n");
  EXPECT_EQ(read_file(in("out/chat_template.jinja"), 9), "n");
  EXPECT_EQ(read_file(in("out/additional_chat_templates/rag.jinja"), 9), "r");
  const Json both = {{{"name", "default"}, {"template", "n"}},
                     {{"name", "rag"}, {"template", "r"}}};
  EXPECT_EQ(read_json_file(in("out/tokenizer_config.json"), 999).at("chat_template"), both);
}

// It names files that nobody copies.
TEST_F(TokenizerFolder, CodeBesideATokenizerIsNotNamedAnyMore) {
  write("tokenizer_config.json", R"({"eos_token": "<|im_end|>", "auto_map": {"AutoTokenizer":
    ["x.X", null]}})");
  make_folders(in("out"));
  open_tokenizer(folder_)->save(in("out"));
  EXPECT_EQ(read_json_file(in("out/tokenizer_config.json"), 999),
            Json({{"eos_token", "<|im_end|>"}}));
}

TEST_F(TokenizerFolder, RefusesByName) {
  write("tokenizer_config.json", R"({"chat_template": [{"name": "../x", "template": "r"}]})");
  EXPECT_EQ(refused(),
            "tokenizer_config.json: chat_template.name: \"../x\" is no name of a template: a name "
            "without '/' or '.' in front, as \"default\" or \"tool_use\"");
  write("tokenizer_config.json", R"({"chat_template": 1})");
  EXPECT_NE(refused().find("tokenizer_config.json: chat_template: 1"), std::string::npos);
  write("chat_template.jinja", "\xFF");
  EXPECT_EQ(refused(), "chat_template.jinja: is no UTF-8: a template in UTF-8");
  write("chat_template.jinja", "x");
  write("special_tokens_map.json", "[]");
  EXPECT_NE(refused().find("special_tokens_map.json"), std::string::npos);
}

TEST_F(TokenizerFolder, TokensOfTheMapStandInForMissingOnes) {
  write("tokenizer_config.json", R"({"eos_token": null, "bos_token": "<|im_start|>"})");
  write("special_tokens_map.json", R"({"eos_token": {"content": "<|im_end|>"}, "pad_token":
    "<|endoftext|>", "bos_token": "<|im_end|>", "additional_special_tokens": ["<|im_end|>"]})");
  const auto tokenizer = open_tokenizer(folder_);
  const auto id_of = [&](const char* text) { return tokenizer->encode(text).front(); };
  EXPECT_EQ(tokenizer->end_token(), id_of("<|im_end|>"));
  EXPECT_EQ(tokenizer->bos_token(), id_of("<|im_start|>"));
  EXPECT_EQ(tokenizer->pad_token(), id_of("<|endoftext|>"));
  EXPECT_TRUE(tokenizer->text_begin().empty()) << "named, but nothing puts it there";
  const SpecialIds of_files = special_ids(read_tokenizer_files(in("tokenizer.json")));
  EXPECT_EQ(of_files.end, tokenizer->end_token());
  EXPECT_EQ(of_files.bos, tokenizer->bos_token());
  EXPECT_EQ(of_files.pad, tokenizer->pad_token());
  make_folders(in("out"));
  tokenizer->save(in("out"));
  for (const char* name : {"tokenizer_config.json", "special_tokens_map.json"})
    EXPECT_EQ(read_file(join_path(in("out"), name), 999), read_file(in(name), 999));
}

SpecialIds ids_of(const char* post_processor, const char* settings) {
  const Json tokenizer = {{"post_processor", parse_json(post_processor, "")}};
  const Json config = parse_json(settings, "");
  return special_ids(
      JsonObject(tokenizer, "t.json"), JsonObject(config, "c.json"),
      [](const std::string& content) { return content.size() == 1 ? content[0] - 'a' : -1; });
}

using Ids = std::vector<int32_t>;

TEST(SpecialIds, PostProcessorsPutTokensAroundATextUnlessToldNot) {
  const char* const around = R"({"type": "TemplateProcessing", "single": [
    {"SpecialToken": {"id": "b", "type_id": 0}}, {"SpecialToken": {"id": "two", "type_id": 0}},
    {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "e", "type_id": 0}}],
    "special_tokens": {"two": {"id": "two", "ids": [7, 8], "tokens": ["h", "i"]}}})";
  EXPECT_EQ(ids_of(around, "{}").before, (Ids{1, 7, 8}));
  EXPECT_EQ(ids_of(around, "{}").after, Ids{4});
  EXPECT_FALSE(ids_of(around, "{}").bos) << "none of three";
  const SpecialIds without = ids_of(around, R"({"bos_token": "b", "eos_token": "e",
    "add_bos_token": false, "add_eos_token": false})");
  EXPECT_EQ(without.before, (Ids{7, 8}));
  EXPECT_TRUE(without.after.empty());
  const char* const none = R"({"type": "ByteLevel"})";
  EXPECT_EQ(ids_of(none, R"({"bos_token": "c", "add_bos_token": true})").before, Ids{2});
  EXPECT_FALSE(ids_of(none, R"({"pad_token": "none"})").pad);
  for (const char* key : {"bos_token", "eos_token"})
    EXPECT_EQ(
        error_of([&] { (void)ids_of(none, fmt::format(R"({{"{}": "none"}})", key).c_str()); }),
        fmt::format("c.json: {}: \"none\": a token of the tokenizer.json beside it", key));
  EXPECT_TRUE(ids_of(none, R"({"bos_token": "c"})").before.empty());
  const char* const sequence = R"({"type": "Sequence", "processors": [{"type": "ByteLevel"},
    {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "d", "type_id": 0}},
    {"Sequence": {"id": "A", "type_id": 0}}]}]})";
  EXPECT_EQ(ids_of(sequence, "{}").before, Ids{3});
  EXPECT_EQ(ids_of(sequence, "{}").bos, 3) << "what alone begins texts";
  EXPECT_THROW((void)ids_of(R"({"type": "TemplateProcessing", "single": [
    {"SpecialToken": {"id": "none", "type_id": 0}}]})",
                            "{}"),
               Error);
}

}  // namespace
}  // namespace ng
