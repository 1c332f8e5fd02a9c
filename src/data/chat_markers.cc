#include "data/chat_markers.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/error.h"

namespace ng {
namespace {

bool is_marker(std::string_view marker, const std::vector<int32_t>& ids,
               const Tokenizer& tokenizer) {
  if (tokenizer.ids_are_bytes()) return true;  // it cuts nothing into pieces: a token a byte
  // Some tokenizers put a token for a space before it.
  return std::ranges::any_of(
      ids, [&](int32_t id) { return trimmed(tokenizer.decode_text(std::span(&id, 1))) == marker; });
}

}  // namespace

ChatMarkers::ChatMarkers(const DocumentRules& rules, const Tokenizer& tokenizer) : rules_(rules) {
  for (const std::string_view marker : markers_of(rules.chat)) {
    const std::vector<int32_t> ids = tokenizer.encode(marker);
    if (is_marker(marker, ids, tokenizer)) continue;
    missing_ = marker;
    pieces_ = ids.size();
    return;
  }
}

void ChatMarkers::require(const Document& document, const std::string& place) const {
  if (missing_.empty() || document.kind != DocumentKind::chat) return;
  throw Error(
      {.place = place,
       .problem = fmt::format("a chat in {}, for whose marker {} the tokenizer has no token: "
                              "it would be cut into {} pieces of text",
                              name_of(rules_.chat), missing_, pieces_),
       .remedy = fmt::format("a tokenizer whose tokens have it; \"bytes\", which spells "
                             "every marker; or another {}",
                             rules_.chat_name)});
}

}  // namespace ng
