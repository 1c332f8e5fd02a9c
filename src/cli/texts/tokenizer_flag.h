// --tokenizer of commands that turn texts into tokens and back.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/flags.h"
#include "tokenizer/tokenizer.h"

namespace ng::cli {

/// Declares --tokenizer FILE|FOLDER|bytes.
Flag add_tokenizer(Flags flags, std::string& name);

/// Declares --template, how chats of a .jsonl file become text.
void add_template(Flags flags, std::string& name);

/// Declares --ignore-keys A,B,C.
void add_ignored_keys(Flags flags, std::vector<std::string>& keys);

/// Declares --special-tokens recognized|text.
void add_special_tokens(Flags flags, std::string& name);

/// open_tokenizer(), whose errors name the flag.
[[nodiscard]] std::unique_ptr<Tokenizer> open_named_tokenizer(const std::string& name);

}  // namespace ng::cli
