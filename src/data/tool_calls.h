// Functions that a chat's assistant may call, and calls of them, out of JSON.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "data/chat_template.h"
#include "data/document_rules.h"

namespace ng {

/// Of a key that rules.chat has no place for: throws Error that names the templates which `has`.
[[noreturn]] void refuse_without_place(const JsonObject& object, std::string_view key,
                                       const DocumentRules& rules, bool (*has)(ChatTemplate));

/// Functions at "tools" of a line, as templates show them: a list of objects, or JSON of one as a
/// text. Empty where there are none. `text`: the line as it was written. Throws Error for other
/// values, and where rules.chat has no place for them.
[[nodiscard]] std::vector<std::string> read_tools(const JsonObject& line, std::string_view text,
                                                  const DocumentRules& rules);

/// Calls in a message's "tool_calls": a list of {"name", "arguments"}, or of {"function": {"name",
/// "arguments"}} as OpenAI has them; one such object may stand for a list of it. Arguments are an
/// object, or JSON of one as a text, which Qwen3's template takes as it is. Errors are at `place`,
/// of `key`.
[[nodiscard]] std::vector<ToolCall> read_calls(const OrderedJson& calls, const std::string& place,
                                               const std::string& key, const DocumentRules& rules);

/// The same of JSON in a text at `key` of a message, whose path is `path`: "messages[3].".
[[nodiscard]] std::vector<ToolCall> read_calls_in_text(const JsonObject& message, const char* key,
                                                       const std::string& path,
                                                       const DocumentRules& rules);

}  // namespace ng
