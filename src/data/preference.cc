#include "data/preference.h"

#include <utility>
#include <vector>

#include "base/json.h"
#include "data/chat_messages.h"

namespace ng {
namespace {

std::string text_of(const JsonObject& object, const char* key) {
  std::string text = object.text(key);
  if (text.empty()) object.refuse(key, "\"\"", "a text that is not empty");
  return text;
}

Preference texts_of(const JsonObject& object, SpecialTokens special) {
  const std::string prompt = text_of(object, "prompt");
  return {.chosen = completed(prompt, text_of(object, "chosen"), special),
          .rejected = completed(prompt, text_of(object, "rejected"), special)};
}

// The chat of prompt and completion; what the assistant said in the prompt is no target.
Document chat_of(const JsonObject& object, const char* key, const DocumentRules& rules,
                 std::string_view bos) {
  std::vector<Message> messages = read_messages(object, "prompt", rules);
  const size_t prompt = render_chat(rules.chat, messages, bos).text.size();
  for (Message& message : read_messages(object, key, rules)) messages.push_back(std::move(message));
  Document document = render_chat(rules.chat, messages, bos);
  std::erase_if(document.targets, [&](const TextSpan& span) { return span.first < prompt; });
  if (document.targets.empty())
    object.refuse(key, "no message of the assistant", "one that says \"role\": \"assistant\"");
  return document;
}

}  // namespace

Preference read_preference(std::string_view line, const DocumentRules& rules, std::string_view bos,
                           const std::string& place) {
  const Json json = parse_json(line, place);
  const JsonObject object(json, place);
  const Json& prompt = object.at("prompt");
  if (prompt.is_string()) return texts_of(object, rules.special);
  if (!prompt.is_array())
    object.refuse("prompt", brief(prompt),
                  "a string, or a list of {\"role\": ..., \"content\": ...}");
  return {.chosen = chat_of(object, "chosen", rules, bos),
          .rejected = chat_of(object, "rejected", rules, bos)};
}

}  // namespace ng
