// --tokenizer of commands that turn texts into tokens and back.
#pragma once

#include <CLI/App.hpp>
#include <memory>
#include <string>

#include "tokenizer/tokenizer.h"

namespace ng::cli {

/// Declares --tokenizer FILE|FOLDER|bytes.
CLI::Option* add_tokenizer(CLI::App& app, std::string& name);

/// Declares --special-tokens recognized|text.
void add_special_tokens(CLI::App& app, std::string& name);

/// open_tokenizer(), whose errors name the flag.
[[nodiscard]] std::unique_ptr<Tokenizer> open_named_tokenizer(const std::string& name);

}  // namespace ng::cli
