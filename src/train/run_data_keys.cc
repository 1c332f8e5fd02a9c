#include "train/run_data_keys.h"

#include <iterator>

#include "data/chat_template.h"
#include "train/table_keys.h"

namespace ng {
namespace {

/// A share of the text, or files.
RunKey validation_key() {
  const std::string expected = "a share from 0 to 0.9 of the text, or files";
  return {{.path = "data.validation",
           .expected = expected,
           .doc = "a part of the text that is not trained on, or other files",
           .type = "number or strings"},
          [=](RunConfig& c, const TomlItem& item) {
            if (item.value->is_string() || item.value->is_array()) {
              c.data.validation_files = read_texts(item);
              return;
            }
            if (!item.value->is_number()) item.refuse_value(expected);
            c.data.validation_share = read_number(item, {0, 0.9});
            c.data.validation_files.clear();
          },
          [](const RunConfig& c) {
            return c.data.validation_files.empty() ? print_value(c.data.validation_share)
                                                   : print_value(c.data.validation_files);
          }};
}

}  // namespace

void add_data_keys(Keys<RunConfig>& keys) {
  TableKeys data(keys, "data.", &RunConfig::data);
  data.texts("train", &RunData::train, "one or more strings",
             "a prepared text by name (kjv), or files, patterns or folders; *.jsonl: documents, "
             "others text or token ids");
  keys.push_back(validation_key());
  data.choice("validation_split", &RunData::validation_split,
              Choices<ValidationSplit>{
                  {{"spread", ValidationSplit::spread}, {"tail", ValidationSplit::tail}}},
              "which part of the text validates: blocks from everywhere in it, or its end");
  data.integer("validation_tokens", &RunData::validation_tokens, {0},
               "validate on no more of them, the beginning of each block; 0: on all");
  data.text("tokenizer", &RunData::tokenizer, "\"bytes\", or a tokenizer's file or folder",
            "how text becomes tokens; with model.init that of the folder unless given");
  const std::string other_key = "a key other than prompt, completion and messages";
  data.text("text_key", &RunData::text_key, other_key,
            "of a .jsonl file: the key whose value is a plain text");
  keys.back().read = [=](RunConfig& c, const TomlItem& item) {
    const std::string name = read_text(item);  // by the others the kinds of documents are told
    if (name.empty() || name == "prompt" || name == "completion" || name == "messages")
      item.refuse(toml_quote(name), other_key);
    c.data.text_key = name;
  };
  data.choice("template", &RunData::chat,
              Choices<ChatTemplate>{{std::begin(kChatTemplates), std::end(kChatTemplates)}},
              "how chats of a .jsonl file become text");
  data.texts("ignored_keys", &RunData::ignored_keys, "one or more strings",
             "keys of lines and messages of a .jsonl file that are left out unread");
  keys.back().print = [](const RunConfig& c) {
    return c.data.ignored_keys.empty() ? "" : print_value(c.data.ignored_keys);
  };
  keys.back().example = "[\"id\", \"source\"]";
  data.choice("tokens", &RunData::tokens,
              Choices<TokensAs>{{{"auto", TokensAs::automatic}, {"uint16", TokensAs::uint16}}},
              "uint16: files are bare token ids of two bytes where they do not say what they are");
  data.choice("special_tokens", &RunData::special_tokens,
              Choices<SpecialTokens>{{std::begin(kSpecialTokens), std::end(kSpecialTokens)}},
              "what the content of one is in texts that are no chats");
}

}  // namespace ng
