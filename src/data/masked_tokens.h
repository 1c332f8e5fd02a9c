// Documents as tokens with their loss mask.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/threads.h"
#include "data/document.h"
#include "data/jsonl.h"
#include "data/read_progress.h"
#include "tokenizer/tokenizer.h"

namespace ng {

struct MaskedTokens {
  std::vector<int32_t> ids;
  std::vector<uint8_t> is_target;    ///< by token, 0 or 1
  std::vector<int64_t> begins = {};  ///< the first tokens of documents, ascending

  /// Appends others as one document.
  void add(const MaskedTokens& more);
};

/// May the tokenizer's end token follow a document?
enum class EndToken : uint8_t { as_the_kind_says, never };

/// With the template of the rules, else the tokenizer's own where it is one that we know.
[[nodiscard]] DocumentRules rules_with(const Tokenizer& tokenizer, DocumentRules rules);

/// A document is tokenized once, as a whole.
[[nodiscard]] MaskedTokens tokens_of(const Document& document, const Tokenizer& tokenizer,
                                     EndToken end = EndToken::as_the_kind_says);

/// f(document, its tokens, bytes of `content` done) of the documents of JSON lines, in order; lines
/// of white space alone are passed over. Threads tokenize several at once. Throws Error at
/// "path:line" for a line that read_document() refuses.
void for_each_document(
    std::string_view content, const std::string& path, const Tokenizer& tokenizer,
    const DocumentRules& rules, EndToken end, Threads threads,
    const std::function<void(const Document&, const MaskedTokens&, size_t done)>& f);

/// The documents of JSON lines, one behind the other.
[[nodiscard]] MaskedTokens tokens_of_jsonl(std::string_view content, const std::string& path,
                                           const Tokenizer& tokenizer, const DocumentRules& rules,
                                           const BytesRead& progress = {});

/// Plain texts, each of them tokenized as one, one behind the other; every token of them is a
/// target. Of the rules, `special` and `begin` count. Threads share a text that can be cut.
/// `progress` hears of all of them together.
[[nodiscard]] MaskedTokens tokens_of_texts(const std::vector<std::string>& paths,
                                           const Tokenizer& tokenizer, const DocumentRules& rules,
                                           Threads threads, const BytesRead& progress = {});

}  // namespace ng
