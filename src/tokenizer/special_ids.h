// The tokens that a tokenizer's files give a meaning: those that begin, end and fill texts.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/tokenizer_folder.h"

namespace ng {

/// What ends a text where no configuration says so, if the vocabulary has it.
inline constexpr std::string_view kUsualEnd = "<|endoftext|>";

struct SpecialIds {
  std::optional<int32_t> bos, end, pad;  ///< bos_token, eos_token, pad_token
  /// What post-processor and add_bos_token put before a text that a model is given, and behind it.
  std::vector<int32_t> before = {}, after = {};
};

/// The id of a token by its content; below 0 where there is none.
using IdOfToken = std::function<int32_t(const std::string& content)>;

/// Of a tokenizer.json and its tokenizer_settings(). The end is kUsualEnd where they name none; the
/// beginning is what alone stands before texts where they name none. `add_bos_token`, where it is
/// said, comes before the post-processor, as in llama.cpp's converter. A pad_token that the
/// vocabulary lacks is none; throws Error for others, and for those of the post-processor.
[[nodiscard]] SpecialIds special_ids(const JsonObject& tokenizer, const JsonObject& settings,
                                     const IdOfToken& id_of);

/// The same of files whose tokenizer need not be one that this program knows.
[[nodiscard]] SpecialIds special_ids(const TokenizerFiles& files);

/// Of a tokenizer that is open.
[[nodiscard]] SpecialIds special_ids(const Tokenizer& tokenizer);

/// A token of tokenizer_config.json: its content, or an object with it; empty where there is none.
[[nodiscard]] std::string token_in_settings(const JsonObject& settings, const std::string& key);

}  // namespace ng
