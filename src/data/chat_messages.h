// Messages of chats as JSON has them.
#pragma once

#include <vector>

#include "base/json.h"
#include "data/jsonl.h"

namespace ng {

/// The list of {"role": ..., "content": ...} at `key`. Throws Error where it is none or empty, a
/// role is unknown, or rules.chat does not say how it becomes text.
[[nodiscard]] std::vector<Message> read_messages(const JsonObject& object, const std::string& key,
                                                 const DocumentRules& rules);

}  // namespace ng
