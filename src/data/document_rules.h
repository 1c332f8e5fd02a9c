// How lines of JSON become documents, as the user says it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/chat_template.h"
#include "data/document.h"

namespace ng {

/// What stands before the tokens of a text that is no chat: a chat's template says it itself.
enum class TextBegin : uint8_t { bare, as_the_tokenizer_says };

struct DocumentRules {
  std::string text_key = "text";
  ChatTemplate chat = ChatTemplate::none;
  std::string chat_name = "data.template";  ///< where `chat` is set, for error messages
  bool has_own_chat = false;  ///< the model has a template, which is none of those that we know
  SpecialTokens special = SpecialTokens::recognized;  ///< in texts that are no chats
  bool generation_prompt = false;     ///< behind a chat, what begins the assistant's answer
  TextBegin begin = TextBegin::bare;  ///< training data is bare: a text is what its file has
  std::vector<std::string> ignored_keys = {};  ///< of lines and messages: as if they were not there
  std::string ignored_name = "data.ignored_keys";  ///< where those are set, for error messages
};

}  // namespace ng
