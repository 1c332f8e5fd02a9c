#include "cli/texts/tokenizer_flag.h"

#include "base/error.h"
#include "base/text.h"
#include "data/chat_template.h"

namespace ng::cli {

Flag add_tokenizer(Flags flags, std::string& name) {
  return flags.option("--tokenizer FILE|FOLDER|bytes", name,
                      "a tokenizer.json, a folder with one, or \"bytes\"");
}

void add_template(Flags flags, std::string& name) {
  std::vector<std::string> names;
  for (const auto& [known, value] : kChatTemplates) names.emplace_back(known);
  flags.setting("--template", name, "how chats of a .jsonl file become text").one_of(names);
}

void add_ignored_keys(Flags flags, std::vector<std::string>& keys) {
  flags.read_option("--ignore-keys A,B,C",
                    "keys of lines and messages of a .jsonl file that are left out unread",
                    [&keys](const std::string& given) { keys = split_at_commas(given); });
}

void add_special_tokens(Flags flags, std::string& name) {
  std::vector<std::string> names;
  for (const auto& [known, value] : kSpecialTokens) names.emplace_back(known);
  flags
      .setting("--special-tokens", name,
               "what the content of one is in texts that are no chats: that token, or text")
      .one_of(names);
}

std::unique_ptr<Tokenizer> open_named_tokenizer(const std::string& name) {
  try {
    return open_tokenizer(name);
  } catch (const Error& error) {
    Error::Parts parts = error.parts();
    if (parts.key != "tokenizer") throw;  // of the file itself
    parts.problem = parts.place + ": " + parts.problem;
    parts.place = "--tokenizer";
    parts.key = "";
    throw Error(parts);
  }
}

}  // namespace ng::cli
