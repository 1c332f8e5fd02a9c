// Which keys a line of JSON, a message or a part of one may have. A key that is not read could say
// what is to be learned, so that it is refused by its name; but not those that say where a line
// comes from, nor one whose value is null.
#pragma once

#include <span>
#include <string_view>

#include "base/json.h"
#include "data/document_rules.h"

namespace ng {

/// Takes the keys of rules.ignored_keys out of a line and of its messages.
void leave_out_ignored(Json& line, const DocumentRules& rules);

/// Throws Error for a key that is none of `known`, none of those by which lines are kept in order
/// (id, source, url, ...), and not null.
void require_known_keys(const JsonObject& object, std::span<const std::string_view> known,
                        const DocumentRules& rules);

/// Throws Error for a key that needs a template where the rules have none. `what`: "a chat".
[[noreturn]] void refuse_without_template(const JsonObject& line, std::string_view key,
                                          std::string_view what, const DocumentRules& rules);

}  // namespace ng
