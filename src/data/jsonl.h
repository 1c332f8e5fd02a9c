// Lines of JSON as documents (texts, prompts with their completions, chats) and as pairs of those:
// a prompt with a completion that is chosen and one that is rejected.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "data/chat_template.h"
#include "data/document.h"

namespace ng {

/// How lines are read, as the user says it.
struct DocumentRules {
  std::string text_key = "text";
  ChatTemplate chat = ChatTemplate::none;
  std::string chat_name = "data.template";            ///< where `chat` is set, for error messages
  SpecialTokens special = SpecialTokens::recognized;  ///< in texts that are no chats
  bool generation_prompt = false;  ///< behind a chat, what begins the assistant's answer
};

/// The document of a line: {"text": T} (the key is rules.text_key), all of it a target;
/// {"prompt": P, "completion": C}: P and C without anything between, C the target;
/// {"messages": [{"role": R, "content": C}, ...]}: render_chat(), `bos` as there. Other keys are
/// not read. Throws Error at `place` for what is not one of these.
[[nodiscard]] Document read_document(std::string_view line, const DocumentRules& rules,
                                     std::string_view bos, const std::string& place);

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

/// Whether a file is read as JSONL: its name ends in ".jsonl".
[[nodiscard]] bool is_jsonl(std::string_view path);

/// f(line, "path:number") of each line of `content`; those of white space alone are passed over.
void for_each_line(std::string_view content, const std::string& path,
                   const std::function<void(std::string_view line, const std::string& place)>& f);

}  // namespace ng
