// A document before it becomes tokens: its text, and which parts of it training shall predict.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tokenizer/special_tokens.h"

namespace ng {

/// Bytes [first, last) of a text.
struct TextSpan {
  size_t first = 0;
  size_t last = 0;
};

/// What the lines of a file hold.
enum class DocumentKind : uint8_t {
  text,        ///< every token of it is a target
  completion,  ///< behind a prompt
  chat
};

/// A token is a target where its first byte lies in one of `targets`; all others get mask 0.
struct Document {
  std::string text;
  std::vector<TextSpan> targets;  ///< ascending, apart from each other
  DocumentKind kind = DocumentKind::text;
  SpecialTokens special = SpecialTokens::recognized;  ///< in `text`

  /// Whether the tokenizer's end token follows, where it has one; it is a target too.
  [[nodiscard]] bool ends() const { return kind != DocumentKind::chat; }
};

}  // namespace ng
