// What a GGUF file's keys say of special tokens and chats. [llama.cpp gguf-py/gguf/vocab.py]
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "io/gguf/gguf.h"
#include "io/model_settings.h"

namespace ng {

/// The default template's key; "." and a name behind it: of another.
inline constexpr std::string_view kGgufChatTemplate = "tokenizer.chat_template";

namespace io {

/// What says which tokens begin, end and fill texts.
struct SpecialKeys {
  const JsonObject& tokenizer;  ///< a tokenizer.json
  const JsonObject& config;     ///< its tokenizer_settings()
  const ModelSettings& settings;
  std::span<const std::string> tokens;  ///< by id
  std::optional<int32_t> otherwise;     ///< where nothing says it
};

/// Adds bos_token_id, eos_token_id and padding_token_id: the tokenizer's, else config.json's; other
/// tokens that end a text as eot_token_id and eom_token_id; add_bos_token and add_eos_token. Throws
/// Error for a token that the tokenizer names and lacks.
void add_special_keys(const SpecialKeys& of, GgufKeys* keys, std::vector<std::string>* notes);

/// The same of a model without a tokenizer.
void add_setting_keys(const ModelSettings& settings, int64_t vocab, GgufKeys* keys);

}  // namespace io

/// Adds the chat templates of a tokenizer_config.json. [gguf-py gguf_writer.py, add_chat_template]
void add_chat_templates(const JsonObject& config, io::GgufKeys* keys,
                        std::vector<std::string>* notes);

}  // namespace ng
