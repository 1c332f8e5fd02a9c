#include "data/messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "base/error.h"
#include "data/line_keys.h"
#include "data/qwen_template.h"
#include "data/tool_calls.h"

namespace ng {
namespace {

// Another name is a slip of the pen, which would leave a chat without targets.
constexpr std::string_view kRoles[] = {"system", "developer", "user", "assistant", "tool"};

// What ShareGPT's lines call roles, beside their names. What a function_call says are calls.
constexpr std::string_view kCaller = "function_call";
constexpr std::pair<std::string_view, std::string_view> kSpeakers[] = {{"human", "user"},
                                                                       {"gpt", "assistant"},
                                                                       {"chatgpt", "assistant"},
                                                                       {"observation", "tool"},
                                                                       {kCaller, "assistant"}};

/// The text of {"type": "text", "text": ...}.
std::string text_of_part(const JsonObject& part, const DocumentRules& rules) {
  constexpr std::string_view kKeys[] = {"type", "text"};
  if (part.text("type") != "text")
    part.refuse("type", brief(part.at("type")), "\"text\": a model of language reads no other");
  require_known_keys(part, kKeys, rules);
  return part.text("text");
}

/// One message of a list. Errors name its keys behind `path`.
class MessageReader {
 public:
  MessageReader(const Json& value, const JsonLine& line, std::string path)
      : message_(value, line.object.place(), path),
        line_(line),
        path_(std::move(path)),
        is_share_gpt_(message_.has("from") || (message_.has("value") && !message_.has("role"))),
        role_key_(is_share_gpt_ ? "from" : "role"),
        content_key_(is_share_gpt_ ? "value" : "content") {}

  /// `ordered`: the same with its members as they were written.
  [[nodiscard]] Message read(const OrderedJson& ordered) const {
    const std::string said = message_.text(role_key_);
    const bool is_caller = is_share_gpt_ && said == kCaller;
    if (is_caller && says("tool_calls"))
      message_.refuse("tool_calls", "beside a function_call", "only one of the two");
    Message message{.role = role(said), .content = ""};
    require_no_other(message.role);  // what it has in place of what is missing
    message.calls = is_caller ? read_calls_in_text(message_, content_key_, path_, line_.rules)
                              : calls(message.role, ordered);
    if (!is_caller && (message.calls.empty() || message_.has(content_key_)))
      message.content = content();
    message.is_learned = is_learned(message.role);
    message.reasoning = reasoning(message.role);
    return message;
  }

 private:
  /// Whether a key says something.
  [[nodiscard]] bool says(std::string_view key) const {
    return message_.has(key) && !message_.at(key).empty() && message_.at(key) != "";
  }

  [[nodiscard]] std::string role(const std::string& said) const {
    std::string role = said;
    for (const auto& [speaker, known] : kSpeakers)
      if (is_share_gpt_ && said == speaker) role = known;
    const bool is_known = std::find(std::begin(kRoles), std::end(kRoles), role) != std::end(kRoles);
    if (!is_known || (role == "developer" && is_qwen(line_.rules.chat)))
      message_.refuse(role_key_, brief(message_.at(role_key_)),
                      is_known ? "\"system\": the template has no other that instructs"
                      : is_share_gpt_
                          ? "\"human\", \"gpt\", \"system\", \"observation\" or \"function_call\""
                          : "\"system\", \"developer\", \"user\", \"assistant\" or \"tool\"");
    return role;
  }

  [[nodiscard]] std::string content() const {
    const Json& value = message_.at(content_key_);
    if (!value.is_array()) return message_.text(content_key_);
    std::string text;
    for (size_t i = 0; i < value.size(); ++i)
      text += text_of_part(
          {value[i], message_.place(), fmt::format("{}{}[{}].", path_, content_key_, i)},
          line_.rules);
    return text;
  }

  [[nodiscard]] std::vector<ToolCall> calls(const std::string& role,
                                            const OrderedJson& ordered) const {
    constexpr const char* kKey = "tool_calls";
    if (!says(kKey)) return {};
    if (role != "assistant")
      message_.refuse(kKey, fmt::format("calls of the {}", role), "calls of the assistant");
    if (!has_tools(line_.rules.chat)) refuse_without_place(message_, kKey, line_.rules, has_tools);
    return read_calls(ordered.at(kKey), message_.place(), path_ + kKey, line_.rules);
  }

  // "weight" as OpenAI's and Fireworks' lines have it, "train" as axolotl reads it.
  [[nodiscard]] std::optional<bool> is_learned(const std::string& role) const {
    const bool has_weight = message_.has("weight");
    if (message_.has("train")) {
      if (has_weight) message_.refuse("weight", "beside train", "only one of the two");
      return message_.boolean_or("train", false);
    }
    if (!has_weight) return {};
    const Json& weight = message_.at("weight");
    if (!weight.is_number() || (weight != 0 && weight != 1))
      message_.refuse("weight", brief(weight), "0 or 1: whether the message is learned");
    if (weight == 1 && role != "assistant")
      message_.refuse("weight", fmt::format("1 of the {}", role),
                      "0, or \"train\": true to learn what others than the assistant say");
    return weight == 1;
  }

  [[nodiscard]] std::optional<std::string> reasoning(const std::string& role) const {
    constexpr const char* kKey = "reasoning_content";
    if (!message_.has(kKey)) return {};
    if (says(kKey) && role != "assistant")
      message_.refuse(kKey, fmt::format("of the {}", role), "that of the assistant");
    if (says(kKey) && !has_reasoning(line_.rules.chat))
      refuse_without_place(message_, kKey, line_.rules, has_reasoning);
    return message_.text(kKey);
  }

  // Which call a tool answers is what templates with tools do not show.
  void require_no_other(const std::string& role) const {
    constexpr std::string_view kOfTools[] = {"name", "tool_call_id"};
    std::vector<std::string_view> known = {role_key_, content_key_,        "weight",
                                           "train",   "reasoning_content", "tool_calls"};
    if (role == "tool") {
      known.insert(known.end(), std::begin(kOfTools), std::end(kOfTools));
      for (const std::string_view key : kOfTools)
        if (says(key) && !has_tools(line_.rules.chat))
          refuse_without_place(message_, key, line_.rules, has_tools);
    }
    require_known_keys(message_, known, line_.rules);
  }

  JsonObject message_;
  const JsonLine& line_;
  std::string path_;
  bool is_share_gpt_;
  const char *role_key_, *content_key_;
};

void require_template(const JsonLine& line, const std::string& key) {
  if (line.rules.chat == ChatTemplate::none)
    refuse_without_template(line.object, key, "a chat", line.rules);
}

void add_history(const JsonObject& line, std::vector<Message>& messages) {
  if (!line.has("history")) return;
  const Json& history = line.at("history");
  const auto is_pair = [](const Json& pair) {
    return pair.is_array() && pair.size() == 2 && pair[0].is_string() && pair[1].is_string();
  };
  if (!history.is_array() || !std::all_of(history.begin(), history.end(), is_pair))
    line.refuse("history", brief(history), "a list of [question, answer]");
  for (const Json& pair : history) {
    messages.push_back({.role = "user", .content = pair[0].get<std::string>()});
    messages.push_back({.role = "assistant", .content = pair[1].get<std::string>()});
  }
}

}  // namespace

std::vector<Message> read_messages(const JsonLine& line, const std::string& key) {
  const Json& list = line.object.at(key);
  if (!list.is_array() || list.empty())
    line.object.refuse(key, brief(list), "a list of {\"role\": ..., \"content\": ...}");
  require_template(line, key);
  const bool has_calls = std::any_of(list.begin(), list.end(), [](const Json& message) {
    return message.is_object() && message.contains("tool_calls");
  });
  const OrderedJson ordered = has_calls ? OrderedJson::parse(line.text).at(key) : OrderedJson();
  std::vector<Message> messages;
  for (const Json& value : list) {
    const size_t i = messages.size();
    const MessageReader reader(value, line, fmt::format("{}[{}].", key, i));
    messages.push_back(reader.read(has_calls ? ordered.at(i) : ordered));
  }
  return messages;
}

Chat read_chat(const JsonLine& line, const std::string& key) {
  Chat chat{.messages = read_messages(line, key),
            .tools = read_tools(line.object, line.text, line.rules)};
  const std::string system = line.object.text_or("system", "");
  if (system.empty()) return chat;
  if (chat.messages.front().role == "system")
    line.object.refuse("system", brief(Json(system)),
                       fmt::format("that, or the system's message in {}", key));
  chat.messages.insert(chat.messages.begin(), {.role = "system", .content = system});
  return chat;
}

std::string alpaca_question(const JsonObject& line) {
  const std::string input = line.text_or("input", "");
  return line.text("instruction") + (input.empty() ? "" : "\n" + input);
}

Chat read_alpaca(const JsonLine& line) {
  require_template(line, "instruction");
  Chat chat;
  if (const std::string system = line.object.text_or("system", ""); !system.empty())
    chat.messages.push_back({.role = "system", .content = system});
  add_history(line.object, chat.messages);
  chat.messages.push_back({.role = "user", .content = alpaca_question(line.object)});
  chat.messages.push_back({.role = "assistant", .content = line.object.text("output")});
  return chat;
}

}  // namespace ng
