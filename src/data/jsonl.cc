#include "data/jsonl.h"

#include <fmt/format.h>

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

Message message_of(const Json& value, const std::string& place, const std::string& path) {
  const JsonObject object(value, place, path);
  Message message{.role = object.text("role"), .content = object.text("content")};
  if (std::find(std::begin(kRoles), std::end(kRoles), message.role) == std::end(kRoles))
    object.refuse("role", brief(object.at("role")),
                  "\"system\", \"developer\", \"user\", \"assistant\" or \"tool\"");
  return message;
}

/// The list of {"role": ..., "content": ...} at `key`. Throws Error where it is none or empty, a
/// role is unknown, or rules.chat does not say how it becomes text.
std::vector<Message> read_messages(const JsonObject& object, const std::string& key,
                                   const DocumentRules& rules) {
  const Json& list = object.at(key);
  if (!list.is_array() || list.empty())
    object.refuse(key, brief(list), "a list of {\"role\": ..., \"content\": ...}");
  if (rules.chat == ChatTemplate::none)
    object.refuse(key, "a chat, and no template that says how it becomes text",
                  rules.chat_name + ": chatml or llama3");
  std::vector<Message> messages;
  for (const Json& value : list)
    messages.push_back(
        message_of(value, object.place(), fmt::format("{}[{}].", key, messages.size())));
  return messages;
}

/// All of a text that follows a prompt, "" or not, is a target.
Document completed(const std::string& prompt, const std::string& completion, DocumentKind kind,
                   SpecialTokens special) {
  return {.text = prompt + completion,
          .targets = {{prompt.size(), prompt.size() + completion.size()}},
          .kind = kind,
          .special = special};
}

std::string text_at(const JsonObject& object, const char* key) {
  std::string text = object.text(key);
  if (text.empty()) object.refuse(key, "\"\"", "a text that is not empty");
  return text;
}

Preference texts_of(const JsonObject& object, SpecialTokens special) {
  const std::string prompt = text_at(object, "prompt");
  return {.chosen = completed(prompt, text_at(object, "chosen"), DocumentKind::completion, special),
          .rejected =
              completed(prompt, text_at(object, "rejected"), DocumentKind::completion, special)};
}

// The chat of prompt and completion; what the assistant said in the prompt is no target.
Document chat_behind_prompt(const JsonObject& object, const char* key, const DocumentRules& rules,
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

Document read_document(std::string_view line, const DocumentRules& rules, std::string_view bos,
                       const std::string& place) {
  const Json json = parse_json(line, place);
  const JsonObject object(json, place);
  const bool is_text = object.has(rules.text_key), is_chat = object.has("messages");
  const bool is_completed = object.has("prompt") || object.has("completion");
  if (int{is_text} + int{is_chat} + int{is_completed} != 1)
    throw Error({.place = place,
                 .problem = is_text || is_chat || is_completed ? "more than one kind of document"
                                                               : "no kind of document",
                 .remedy = fmt::format("{}, or \"prompt\" and \"completion\", or \"messages\"",
                                       brief(Json(rules.text_key)))});
  if (is_text) return completed("", object.text(rules.text_key), DocumentKind::text, rules.special);
  if (is_completed)
    return completed(object.text("prompt"), object.text("completion"), DocumentKind::completion,
                     rules.special);
  return render_chat(rules.chat, read_messages(object, "messages", rules), bos,
                     rules.generation_prompt);
}

Preference read_preference(std::string_view line, const DocumentRules& rules, std::string_view bos,
                           const std::string& place) {
  const Json json = parse_json(line, place);
  const JsonObject object(json, place);
  const Json& prompt = object.at("prompt");
  if (prompt.is_string()) return texts_of(object, rules.special);
  if (!prompt.is_array())
    object.refuse("prompt", brief(prompt),
                  "a string, or a list of {\"role\": ..., \"content\": ...}");
  return {.chosen = chat_behind_prompt(object, "chosen", rules, bos),
          .rejected = chat_behind_prompt(object, "rejected", rules, bos)};
}

bool is_jsonl(std::string_view path) { return path.ends_with(".jsonl"); }

void for_each_line(std::string_view content, const std::string& path,
                   const std::function<void(std::string_view line, const std::string& place)>& f) {
  int64_t number = 1;
  for (size_t begin = 0; begin < content.size(); ++number) {
    const std::string_view line = content.substr(begin, content.find('\n', begin) - begin);
    begin += line.size() + 1;
    if (line.find_first_not_of(" \t\r") != std::string_view::npos)
      f(line, fmt::format("{}:{}", path, number));
  }
}

}  // namespace ng
