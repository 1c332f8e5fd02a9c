// Documents as tokens with their loss mask.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "data/document.h"
#include "data/jsonl.h"
#include "tokenizer/tokenizer.h"

namespace ng {

struct MaskedTokens {
  std::vector<int32_t> ids;
  std::vector<uint8_t> is_target;  ///< by token, 0 or 1

  /// Appends a document's tokens.
  void add(const Document& document, const Tokenizer& tokenizer);
};

/// The bytes of a file.
[[nodiscard]] std::string_view text_of(const MappedFile& file);

/// The documents of JSON lines, one behind the other; lines of white space alone are passed over.
/// Throws Error at "path:line" for a line that read_document() refuses.
[[nodiscard]] MaskedTokens tokens_of_jsonl(std::string_view content, const std::string& path,
                                           const Tokenizer& tokenizer, const DocumentRules& rules);

/// Plain texts, each of them tokenized as one, one behind the other; every token is a target.
[[nodiscard]] MaskedTokens tokens_of_texts(const std::vector<std::string>& paths,
                                           const Tokenizer& tokenizer);

}  // namespace ng
