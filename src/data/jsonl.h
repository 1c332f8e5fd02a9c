// Lines of JSON as documents: texts, prompts with their completions, chats.
#pragma once

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

}  // namespace ng
