#include "data/jsonl.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"

namespace ng {
namespace {

// Another name is a slip of the pen, which would leave a chat without targets.
constexpr std::string_view kRoles[] = {"system", "developer", "user", "assistant", "tool"};

Document whole(std::string text) {
  const size_t size = text.size();
  return {.text = std::move(text), .targets = {{0, size}}, .ends = true};
}

Document completed(std::string prompt, const std::string& completion) {
  const size_t first = prompt.size();
  prompt += completion;
  const size_t last = prompt.size();
  return {.text = std::move(prompt), .targets = {{first, last}}, .ends = true};
}

Message message_of(const Json& value, const std::string& place, size_t index) {
  const JsonObject object(value, place, fmt::format("messages[{}].", index));
  Message message{.role = object.text("role"), .content = object.text("content")};
  if (std::find(std::begin(kRoles), std::end(kRoles), message.role) == std::end(kRoles))
    object.refuse("role", brief(object.at("role")),
                  "\"system\", \"developer\", \"user\", \"assistant\" or \"tool\"");
  return message;
}

Document chat_of(const JsonObject& object, const DocumentRules& rules, std::string_view bos) {
  const Json& list = object.at("messages");
  if (!list.is_array() || list.empty())
    object.refuse("messages", brief(list), "a list of {\"role\": ..., \"content\": ...}");
  if (rules.chat == ChatTemplate::none)
    object.refuse("messages", "a chat, and no template that says how it becomes text",
                  rules.chat_name + ": chatml or llama3");
  std::vector<Message> messages;
  for (const Json& value : list)
    messages.push_back(message_of(value, object.place(), messages.size()));
  return render_chat(rules.chat, messages, bos);
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
  if (is_text) return whole(object.text(rules.text_key));
  if (is_completed) return completed(object.text("prompt"), object.text("completion"));
  return chat_of(object, rules, bos);
}

}  // namespace ng
