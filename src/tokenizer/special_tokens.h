// What a special token's content in a text stands for.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

namespace ng {

/// Of added tokens that a tokenizer.json calls special: where a text has the content of one, that
/// is the token, or text like any other, as in texts of strangers it should be.
/// [tokenizers, encode_special_tokens]
enum class SpecialTokens : uint8_t { recognized, text };

/// What run files and flags call them.
inline constexpr std::pair<std::string_view, SpecialTokens> kSpecialTokens[] = {
    {"recognized", SpecialTokens::recognized}, {"text", SpecialTokens::text}};

/// By that name; empty where there is none.
[[nodiscard]] constexpr std::optional<SpecialTokens> find_special_tokens(std::string_view name) {
  for (const auto& [known, value] : kSpecialTokens)
    if (known == name) return value;
  return {};
}

}  // namespace ng
