// Chats as text, by the fixed templates whose markers models for chat are trained with.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "data/document.h"

namespace ng {

struct Message {
  std::string role, content;
};

enum class ChatTemplate : uint8_t { none, chatml, llama3 };

/// What run files and flags call them.
inline constexpr std::pair<std::string_view, ChatTemplate> kChatTemplates[] = {
    {"none", ChatTemplate::none},
    {"chatml", ChatTemplate::chatml},
    {"llama3", ChatTemplate::llama3}};

/// By that name; empty where there is none.
[[nodiscard]] std::optional<ChatTemplate> find_chat_template(std::string_view name);

/// chatml: `<|im_start|>ROLE\nCONTENT<|im_end|>\n` for each message. [Qwen2's chat template]
/// llama3: `bos`, then `<|start_header_id|>ROLE<|end_header_id|>\n\nCONTENT<|eot_id|>`, the content
/// without white space around it. [Llama 3's chat template]
/// Targets are the content and the closing marker of each message whose role is "assistant", not
/// the line feed behind that. `generation_prompt`: then what would begin the assistant's answer.
/// `format` is not none.
[[nodiscard]] Document render_chat(ChatTemplate format, std::span<const Message> messages,
                                   std::string_view bos, bool generation_prompt = false);

/// The template as Hugging Face's libraries run it; empty for none. With {% generation %} around
/// what is a target.
[[nodiscard]] std::string_view jinja_of(ChatTemplate format);
/// The template whose jinja_of() is this text, byte for byte; else none.
[[nodiscard]] ChatTemplate chat_template_of(std::string_view jinja);

/// A text without white space at its ends, as Python's str.strip(), which templates call.
[[nodiscard]] std::string_view trimmed(std::string_view utf8);

}  // namespace ng
