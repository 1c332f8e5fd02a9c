// Chats as text, by the fixed templates whose markers models for chat are trained with.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/document.h"

namespace ng {

/// A function that the assistant calls.
struct ToolCall {
  std::string name, arguments;  ///< JSON, as it is rendered
};

struct Message {
  std::string role, content;
  std::optional<bool> is_learned = {};        ///< what the message says of it
  std::optional<std::string> reasoning = {};  ///< what the assistant thought before
  std::vector<ToolCall> calls = {};           ///< behind the content

  /// Whether what it says is to be predicted: of the assistant's unless it says otherwise.
  [[nodiscard]] bool is_target() const { return is_learned.value_or(role == "assistant"); }
};

struct Chat {
  std::vector<Message> messages;
  std::vector<std::string> tools = {};  ///< functions that may be called, JSON as it is rendered
};

enum class ChatTemplate : uint8_t { none, chatml, llama3, qwen2_5, qwen3 };

/// What run files and flags call them.
inline constexpr std::pair<std::string_view, ChatTemplate> kChatTemplates[] = {
    {"none", ChatTemplate::none},
    {"chatml", ChatTemplate::chatml},
    {"llama3", ChatTemplate::llama3},
    {"qwen2.5", ChatTemplate::qwen2_5},
    {"qwen3", ChatTemplate::qwen3}};

[[nodiscard]] std::string_view name_of(ChatTemplate format);

/// Whether it is a template; has a place for tools and calls of them; for what the assistant
/// thought.
[[nodiscard]] bool has_messages(ChatTemplate format);
[[nodiscard]] bool has_tools(ChatTemplate format);
[[nodiscard]] bool has_reasoning(ChatTemplate format);

/// "NAME, NAME or NAME": those for which `has` holds.
[[nodiscard]] std::string chat_templates_with(bool (*has)(ChatTemplate));

/// By that name; empty where there is none.
[[nodiscard]] std::optional<ChatTemplate> find_chat_template(std::string_view name);

/// chatml: `<|im_start|>ROLE\nCONTENT<|im_end|>\n` for each message. [Qwen2's chat template]
/// llama3: `bos`, then `<|start_header_id|>ROLE<|end_header_id|>\n\nCONTENT<|eot_id|>`, the content
/// without white space around it. [Llama 3's chat template]
/// qwen2.5, qwen3: render_qwen().
/// Targets are the content and the closing marker of each message that is one, not the line feed
/// behind that. `generation_prompt`: then what would begin the assistant's answer. `format` is not
/// none, and has a place for all that the chat has.
[[nodiscard]] Document render_chat(ChatTemplate format, const Chat& chat, std::string_view bos,
                                   bool generation_prompt = false);

/// The template as Hugging Face's libraries run it; empty for none. With {% generation %} around
/// what is a target.
[[nodiscard]] std::string_view jinja_of(ChatTemplate format);
/// The template whose jinja_of() is this text; chatml where is_chatml() holds; else none.
[[nodiscard]] ChatTemplate chat_template_of(std::string_view jinja);

/// The tokens that stand around a message, which a model for such chats has in its vocabulary; none
/// of none.
[[nodiscard]] std::span<const std::string_view> markers_of(ChatTemplate format);

/// A text without white space at its ends, as Python's str.strip(), which templates call.
[[nodiscard]] std::string_view trimmed(std::string_view utf8);

}  // namespace ng
