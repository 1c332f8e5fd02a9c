// Whether a tokenizer has the markers of a chat template.
#pragma once

#include <string>
#include <string_view>

#include "data/document.h"
#include "data/document_rules.h"
#include "tokenizer/tokenizer.h"

namespace ng {

/// A marker is one token, or, of "bytes", spelled byte by byte. Where another tokenizer cuts it up,
/// be it into bytes, a model cannot tell it from text that looks like it: chats are refused.
class ChatMarkers {
 public:
  /// rules.chat is the template that chats are rendered by.
  ChatMarkers(const DocumentRules& rules, const Tokenizer& tokenizer);

  /// Throws Error at `place` where the document is a chat and the tokenizer lacks a marker.
  void require(const Document& document, const std::string& place) const;

 private:
  const DocumentRules& rules_;
  std::string_view missing_;  ///< the first one; empty: none
  size_t pieces_ = 0;         ///< that it is cut into
};

}  // namespace ng
