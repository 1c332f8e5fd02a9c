#include "data/chat_messages.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"

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

}  // namespace

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

}  // namespace ng
