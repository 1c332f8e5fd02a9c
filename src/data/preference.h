// Lines of JSON as pairs: a prompt with a completion that is chosen and one that is rejected.
#pragma once

#include <string>
#include <string_view>

#include "data/jsonl.h"

namespace ng {

/// Two documents that begin with the same prompt; targets are those of what follows it.
struct Preference {
  Document chosen, rejected;
};

/// The pair of a line: {"prompt": P, "chosen": C, "rejected": R}, all three strings, put together
/// without anything between; or all three lists of {"role": ..., "content": ...}, rendered as one
/// chat, of which the assistant's messages in C and R are targets. Other keys are not read.
/// [formats "standard" and "conversational" of TRL] Throws Error at `place` for what is neither,
/// and where prompt, chosen or rejected are empty.
[[nodiscard]] Preference read_preference(std::string_view line, const DocumentRules& rules,
                                         std::string_view bos, const std::string& place);

}  // namespace ng
