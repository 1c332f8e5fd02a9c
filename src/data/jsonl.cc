#include "data/jsonl.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "data/line_keys.h"
#include "data/messages.h"

namespace ng {
namespace {

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

/// The chat of a pair's prompt, of which nothing is learned.
Chat prompt_of(const JsonLine& line) {
  Chat prompt = read_chat(line, "prompt");
  for (Message& message : prompt.messages) {
    if (message.is_learned.value_or(false))
      line.object.refuse("prompt", "a message with weight 1 or train true",
                         "none: a pair's prompt is not learned");
    message.is_learned = false;
  }
  return prompt;
}

Document chat_behind(Chat chat, const JsonLine& line, const char* key, std::string_view bos) {
  for (Message& message : read_messages(line, key)) chat.messages.push_back(std::move(message));
  Document document = render_chat(line.rules.chat, chat, bos);
  if (document.targets.empty())
    line.object.refuse(key, "no message of the assistant",
                       "one that says \"role\": \"assistant\", of a weight that is not 0");
  return document;
}

Preference pair_of_chats(const JsonLine& line, std::string_view bos) {
  const Chat prompt = prompt_of(line);
  return {.chosen = chat_behind(prompt, line, "chosen", bos),
          .rejected = chat_behind(prompt, line, "rejected", bos)};
}

/// Which kind of document a line is.
enum class LineKind : uint8_t { text, completion, messages, conversations, alpaca };

/// A kind, the keys that tell it, and all that it has.
struct KindKeys {
  LineKind kind;
  std::vector<std::string_view> telling, all;
};

const std::vector<KindKeys>& kinds() {
  static const std::vector<KindKeys> all = {
      {LineKind::completion, {"prompt", "completion"}, {"prompt", "completion"}},
      {LineKind::messages, {"messages"}, {"messages", "system", "tools"}},
      {LineKind::conversations, {"conversations"}, {"conversations", "system", "tools"}},
      {LineKind::alpaca,
       {"instruction", "output"},
       {"instruction", "input", "output", "system", "history"}}};
  return all;
}

/// The line's only kind; throws Error where it has none or several.
KindKeys kind_of(const JsonObject& line, const DocumentRules& rules) {
  std::vector<KindKeys> found;
  if (line.has(rules.text_key)) found.push_back({LineKind::text, {}, {rules.text_key}});
  for (const KindKeys& kind : kinds()) {
    const auto tells = [&](std::string_view key) { return key != rules.text_key && line.has(key); };
    if (std::any_of(kind.telling.begin(), kind.telling.end(), tells)) found.push_back(kind);
  }
  if (found.size() != 1)
    throw Error(
        {.place = line.place(),
         .problem = found.empty() ? "no kind of document" : "more than one kind of document",
         .remedy = fmt::format("{}, or \"prompt\" and \"completion\", or \"messages\", or "
                               "\"conversations\", or \"instruction\" and \"output\"",
                               brief(Json(rules.text_key)))});
  return found.front();
}

/// A line of Alpaca without a template. What came before the question would have no place.
Document plain_alpaca(const JsonObject& line, const DocumentRules& rules) {
  for (const char* const key : {"system", "history"})
    if (line.has(key) && !line.at(key).empty() && line.at(key) != "")
      refuse_without_template(line, key, "part of a chat", rules);
  return completed(alpaca_question(line) + "\n", line.text("output"), DocumentKind::completion,
                   rules.special);
}

}  // namespace

Document read_document(std::string_view line, const DocumentRules& rules, std::string_view bos,
                       const std::string& place) {
  Json json = parse_json(line, place);
  leave_out_ignored(json, rules);
  const JsonObject object(json, place);
  const KindKeys kind = kind_of(object, rules);
  require_known_keys(object, kind.all, rules);
  const JsonLine read{object, line, rules};
  const auto rendered = [&](const Chat& chat) {
    return render_chat(rules.chat, chat, bos, rules.generation_prompt);
  };
  switch (kind.kind) {
    case LineKind::text:
      return completed("", object.text(rules.text_key), DocumentKind::text, rules.special);
    case LineKind::completion:
      return completed(object.text("prompt"), object.text("completion"), DocumentKind::completion,
                       rules.special);
    case LineKind::messages:
      return rendered(read_chat(read, "messages"));
    case LineKind::conversations:
      return rendered(read_chat(read, "conversations"));
    case LineKind::alpaca:
      return rules.chat == ChatTemplate::none ? plain_alpaca(object, rules)
                                              : rendered(read_alpaca(read));
  }
  NG_CHECK(false);
  return {};
}

Preference read_preference(std::string_view line, const DocumentRules& rules, std::string_view bos,
                           const std::string& place) {
  constexpr std::string_view kTexts[] = {"prompt", "chosen", "rejected"};
  constexpr std::string_view kChats[] = {"prompt", "chosen", "rejected", "system", "tools"};
  Json json = parse_json(line, place);
  leave_out_ignored(json, rules);
  const JsonObject object(json, place);
  const Json& prompt = object.at("prompt");
  const bool is_text = prompt.is_string();
  if (!is_text && !prompt.is_array())
    object.refuse("prompt", brief(prompt),
                  "a string, or a list of {\"role\": ..., \"content\": ...}");
  const std::span<const std::string_view> known =
      is_text ? std::span<const std::string_view>(kTexts) : kChats;
  const Preference pair =
      is_text ? texts_of(object, rules.special) : pair_of_chats({object, line, rules}, bos);
  require_known_keys(object, known, rules);
  return pair;
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
