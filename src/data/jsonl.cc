#include "data/jsonl.h"

#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "data/chat_messages.h"

namespace ng {
namespace {

Document whole(std::string text, SpecialTokens special) {
  const size_t size = text.size();
  return {.text = std::move(text),
          .targets = {{0, size}},
          .kind = DocumentKind::text,
          .special = special};
}

Document chat_of(const JsonObject& object, const DocumentRules& rules, std::string_view bos) {
  return render_chat(rules.chat, read_messages(object, "messages", rules), bos,
                     rules.generation_prompt);
}

}  // namespace

Document read_document(std::string_view line, const DocumentRules& rules, std::string_view bos,
                       const std::string& place) {
  const Json json = parse_json(line, place);
  const JsonObject object(json, place);
  const bool is_text = object.has(rules.text_key), is_chat = object.has("messages");
  const bool is_completed = object.has("prompt") || object.has("completion");
  if (int{is_text} + int{is_chat} + int{is_completed} != 1)
    throw Error({.place = place,
                 .key = "",
                 .problem = is_text || is_chat || is_completed ? "more than one kind of document"
                                                               : "no kind of document",
                 .remedy = fmt::format("{}, or \"prompt\" and \"completion\", or \"messages\"",
                                       brief(Json(rules.text_key)))});
  if (is_text) return whole(object.text(rules.text_key), rules.special);
  if (is_completed)
    return completed(object.text("prompt"), object.text("completion"), rules.special);
  return chat_of(object, rules, bos);
}

}  // namespace ng
