// Chats out of lines of JSON: OpenAI's ("messages" of "role" and "content"), ShareGPT's
// ("conversations" of "from" and "value") and Alpaca's ("instruction", "input", "output").
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "data/chat_template.h"
#include "data/document_rules.h"

namespace ng {

/// A line of JSON and how it is read.
struct JsonLine {
  const JsonObject& object;
  std::string_view text;  ///< as it was written: members of tools keep their order
  const DocumentRules& rules;
};

/// The list of messages at `key`. A content is a text, or a list of {"type": "text", "text": ...},
/// whose texts follow each other; where there are "tool_calls" it may be missing. "weight" (0 or 1)
/// and "train" (false or true) say whether a message is a target: without them the assistant's are,
/// and "train" alone makes another's one. Throws Error where it is no such list or empty; for a
/// role, a value or a key that is unknown; for what rules.chat has no place for.
[[nodiscard]] std::vector<Message> read_messages(const JsonLine& line, const std::string& key);

/// The chat whose messages are at `key`; a text at "system" is the message of the system before
/// them. "tools" are a list of objects, or JSON of such a list as a text.
[[nodiscard]] Chat read_chat(const JsonLine& line, const std::string& key);

/// What the user asks in a line of Alpaca: the instruction and, where it is not empty, a line feed
/// and the input.
[[nodiscard]] std::string alpaca_question(const JsonObject& line);

/// The chat of a line of Alpaca: "system", the pairs of question and answer of "history",
/// alpaca_question(), and "output" of the assistant.
[[nodiscard]] Chat read_alpaca(const JsonLine& line);

}  // namespace ng
