// The chat templates of Qwen2.5 and Qwen3: ChatML with tools, calls of them and reasoning.
#pragma once

#include <string_view>

#include "data/chat_template.h"
#include "data/document.h"

namespace ng {

[[nodiscard]] bool is_qwen(ChatTemplate format);

/// As the templates of these models have it: the system's message first (Qwen2.5: one of their own
/// where there is none) with the tools in it, calls as JSON in <tool_call>, what tools say in
/// <tool_response> as the user, several in a row as one message. Qwen3 shows what the assistant
/// thought in <think>, behind the last question alone. Targets are what a message says, calls and
/// thoughts included, and its closing marker. [chat_template of Qwen2.5-Instruct and Qwen3]
[[nodiscard]] Document render_qwen(ChatTemplate format, const Chat& chat, bool generation_prompt);

/// The template as Hugging Face's libraries run it, with {% generation %} around what is a target.
[[nodiscard]] std::string_view qwen_jinja(ChatTemplate format);

}  // namespace ng
