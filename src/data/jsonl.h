// Lines of JSON as documents (texts, prompts with their completions, chats) and as pairs of those:
// a prompt with a completion that is chosen and one that is rejected.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "data/document.h"
#include "data/document_rules.h"

namespace ng {

/// The document of a line, told by its keys:
/// {"text": T} (the key is rules.text_key), all of it a target;
/// {"prompt": P, "completion": C}: P and C without anything between, C the target;
/// {"messages": [...]}, {"conversations": [...]}: render_chat() of read_chat(), `bos` as there;
/// {"instruction": I, "output": O}: render_chat() of read_alpaca() or, where rules.chat is none, as
/// P and C alpaca_question() with a line feed behind it, and O.
/// Throws Error at `place` for what is not one of these, and for a key that require_known_keys()
/// refuses.
[[nodiscard]] Document read_document(std::string_view line, const DocumentRules& rules,
                                     std::string_view bos, const std::string& place);

/// Two documents that begin with the same prompt; targets are those of what follows it.
struct Preference {
  Document chosen, rejected;
};

/// The pair of a line: {"prompt": P, "chosen": C, "rejected": R}, all three strings, put together
/// without anything between; or all three lists of messages, rendered as one chat, of
/// which those of the messages in C and R are targets that would be in a document. [formats
/// "standard" and "conversational" of TRL] Throws Error at `place` for what is neither, for a key
/// that require_known_keys() refuses, where prompt, chosen or rejected are empty, and for a message
/// of the prompt that wants to be learned.
[[nodiscard]] Preference read_preference(std::string_view line, const DocumentRules& rules,
                                         std::string_view bos, const std::string& place);

/// Whether a file is read as JSONL: its name ends in ".jsonl".
[[nodiscard]] bool is_jsonl(std::string_view path);

/// f(line, "path:number") of each line of `content`; those of white space alone are passed over.
void for_each_line(std::string_view content, const std::string& path,
                   const std::function<void(std::string_view line, const std::string& place)>& f);

}  // namespace ng
