#include "data/tool_calls.h"

#include <fmt/format.h>

#include "base/error.h"
#include "data/line_keys.h"
#include "data/python_json.h"

namespace ng {
namespace {

constexpr std::string_view kCallKeys[] = {"type", "function", "name", "arguments"};
constexpr std::string_view kFunctionKeys[] = {"name", "arguments"};

// In the order in which members were written. Throws Error at `place` for what is no JSON.
OrderedJson ordered_json(std::string_view text, const std::string& place) {
  (void)parse_json(text, place);  // which has the limits and the errors
  return OrderedJson::parse(text);
}

/// A text that is JSON of an object; null for another.
OrderedJson object_in(const std::string& text) {
  try {
    OrderedJson value = ordered_json(text, "");
    return value.is_object() ? value : OrderedJson();
  } catch (const Error&) {
    return {};
  }
}

std::string arguments_of(const JsonObject& function, const OrderedJson& value,
                         const DocumentRules& rules) {
  const Json& given = function.at("arguments", "an object");
  if (given.is_object()) return python_json(value);
  const OrderedJson object =
      given.is_string() ? object_in(given.get<std::string>()) : OrderedJson();
  if (object.is_null())
    function.refuse("arguments", brief(given), "an object, or JSON of one as a text");
  return rules.chat == ChatTemplate::qwen3 ? given.get<std::string>() : python_json(object);
}

ToolCall call_of(const OrderedJson& value, const std::string& place, const std::string& path,
                 const DocumentRules& rules) {
  const Json plain = value;
  const JsonObject call(plain, place, path);
  require_known_keys(call, kCallKeys, rules);
  if (const std::string type = call.text_or("type", "function"); type != "function")
    call.refuse("type", brief(Json(type)), "\"function\"");
  if (!call.has("function"))
    return {call.text("name"), arguments_of(call, value.value("arguments", OrderedJson()), rules)};
  const JsonObject function = call.object("function");
  require_known_keys(function, kFunctionKeys, rules);
  for (const std::string_view key : kFunctionKeys)
    if (call.has(key)) call.refuse(key, "beside function", "only that of function");
  return {function.text("name"),
          arguments_of(function, value.at("function").value("arguments", OrderedJson()), rules)};
}

}  // namespace

void refuse_without_place(const JsonObject& object, std::string_view key,
                          const DocumentRules& rules, bool (*has)(ChatTemplate)) {
  object.refuse(
      key, fmt::format("{}, for which {} has no place", brief(object.at(key)), name_of(rules.chat)),
      fmt::format("{}: {}", rules.chat_name, chat_templates_with(has)));
}

std::vector<std::string> read_tools(const JsonObject& line, std::string_view text,
                                    const DocumentRules& rules) {
  if (!line.has("tools")) return {};
  const Json& given = line.at("tools");
  if (given.empty() || given == "") return {};
  if (!has_tools(rules.chat)) refuse_without_place(line, "tools", rules, has_tools);
  const OrderedJson tools = given.is_string()
                                ? ordered_json(given.get<std::string>(), line.place() + ": tools")
                                : OrderedJson::parse(text).at("tools");
  std::vector<std::string> shown;
  for (const OrderedJson& tool : tools.is_array() ? tools : OrderedJson::array({nullptr})) {
    if (!tool.is_object()) line.refuse("tools", brief(given), "a list of objects");
    shown.push_back(python_json(tool));
  }
  return shown;
}

std::vector<ToolCall> read_calls(const OrderedJson& calls, const std::string& place,
                                 const std::string& key, const DocumentRules& rules) {
  if (!calls.is_array()) return {call_of(calls, place, key + ".", rules)};
  std::vector<ToolCall> read;
  for (const OrderedJson& call : calls)
    read.push_back(call_of(call, place, fmt::format("{}[{}].", key, read.size()), rules));
  return read;
}

std::vector<ToolCall> read_calls_in_text(const JsonObject& message, const char* key,
                                         const std::string& path, const DocumentRules& rules) {
  const std::string text = message.text(key);
  if (!has_tools(rules.chat)) refuse_without_place(message, key, rules, has_tools);
  const std::string name = path + key;
  return read_calls(ordered_json(text, message.place() + ": " + name), message.place(), name,
                    rules);
}

}  // namespace ng
