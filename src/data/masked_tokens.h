// Documents as tokens with their loss mask.
#pragma once

#include <cstdint>
#include <vector>

#include "data/document.h"
#include "data/tokenizer.h"

namespace ng {

struct MaskedTokens {
  std::vector<int32_t> ids;
  std::vector<uint8_t> is_target;  ///< by token, 0 or 1

  /// Appends a document's tokens.
  void add(const Document& document, const Tokenizer& tokenizer);
};

}  // namespace ng
