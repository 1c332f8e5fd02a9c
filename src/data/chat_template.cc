#include "data/chat_template.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "base/error.h"
#include "data/chatml_jinja.h"
#include "data/qwen_template.h"

namespace ng {
namespace {

/// What stands around a message's role and content.
struct Markers {
  std::string_view before_role, before_content, closing, after;
  bool trims;
};

constexpr Markers kChatml = {"<|im_start|>", "\n", "<|im_end|>", "\n", false};
constexpr Markers kLlama3 = {"<|start_header_id|>", "<|end_header_id|>\n\n", "<|eot_id|>", "",
                             true};

constexpr std::string_view kMarkersOfChatml[] = {"<|im_start|>", "<|im_end|>"};  // Qwen's, too
constexpr std::string_view kMarkersOfLlama3[] = {"<|start_header_id|>", "<|end_header_id|>",
                                                 "<|eot_id|>"};

// Written so that they can stand in a tokenizer_config.json, with the targets marked.
constexpr std::string_view kChatmlJinja =
    R"jinja({%- for m in messages %}{{- '<|im_start|>' + m['role'] + '\n' }})jinja"
    R"jinja({%- if m['role'] == 'assistant' %}{% generation %})jinja"
    R"jinja({{- m['content'] + '<|im_end|>' }}{% endgeneration %}{{- '\n' }}{%- else %})jinja"
    R"jinja({{- m['content'] + '<|im_end|>\n' }}{%- endif %}{%- endfor %})jinja"
    R"jinja({%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %})jinja";
constexpr std::string_view kLlama3Jinja =
    R"jinja({{- bos_token }}{%- for m in messages %})jinja"
    R"jinja({{- '<|start_header_id|>' + m['role'] + '<|end_header_id|>\n\n' }})jinja"
    R"jinja({%- if m['role'] == 'assistant' %}{% generation %})jinja"
    R"jinja({{- m['content'] | trim + '<|eot_id|>' }}{% endgeneration %}{%- else %})jinja"
    R"jinja({{- m['content'] | trim + '<|eot_id|>' }}{%- endif %}{%- endfor %})jinja"
    R"jinja({%- if add_generation_prompt %})jinja"
    R"jinja({{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{%- endif %})jinja";

// The characters for which Python's str.isspace() is true, in UTF-8.
constexpr std::string_view kSpaces[] = {
    "\t",           "\n",           "\v",           "\f",           "\r",
    "\x1c",         "\x1d",         "\x1e",         "\x1f",         " ",
    "\xC2\x85",     "\xC2\xA0",     "\xE1\x9A\x80", "\xE2\x80\x80", "\xE2\x80\x81",
    "\xE2\x80\x82", "\xE2\x80\x83", "\xE2\x80\x84", "\xE2\x80\x85", "\xE2\x80\x86",
    "\xE2\x80\x87", "\xE2\x80\x88", "\xE2\x80\x89", "\xE2\x80\x8A", "\xE2\x80\xA8",
    "\xE2\x80\xA9", "\xE2\x80\xAF", "\xE2\x81\x9F", "\xE3\x80\x80"};

/// Bytes of the white space for which `stands` holds; 0 where it holds for none.
size_t bytes_of_space(const auto& stands) {
  const auto* const found = std::find_if(std::begin(kSpaces), std::end(kSpaces), stands);
  return found == std::end(kSpaces) ? 0 : found->size();
}

}  // namespace

std::optional<ChatTemplate> find_chat_template(std::string_view name) {
  for (const auto& [known, format] : kChatTemplates)
    if (known == name) return format;
  return {};
}

std::string_view name_of(ChatTemplate format) {
  for (const auto& [name, known] : kChatTemplates)
    if (known == format) return name;
  return "";
}

bool has_messages(ChatTemplate format) { return format != ChatTemplate::none; }
bool has_tools(ChatTemplate format) { return is_qwen(format); }
bool has_reasoning(ChatTemplate format) { return format == ChatTemplate::qwen3; }

std::string chat_templates_with(bool (*has)(ChatTemplate)) {
  std::vector<std::string_view> names;
  for (const auto& [name, format] : kChatTemplates)
    if (has(format)) names.push_back(name);
  if (names.size() == 1) return std::string(names.front());
  return fmt::format("{} or {}", fmt::join(names.begin(), names.end() - 1, ", "), names.back());
}

std::span<const std::string_view> markers_of(ChatTemplate format) {
  if (format == ChatTemplate::none) return {};
  if (format == ChatTemplate::llama3) return kMarkersOfLlama3;
  return kMarkersOfChatml;
}

std::string_view trimmed(std::string_view utf8) {
  const auto leads = [&](std::string_view space) { return utf8.starts_with(space); };
  const auto trails = [&](std::string_view space) { return utf8.ends_with(space); };
  while (const size_t bytes = bytes_of_space(leads)) utf8.remove_prefix(bytes);
  while (const size_t bytes = bytes_of_space(trails)) utf8.remove_suffix(bytes);
  return utf8;
}

Document render_chat(ChatTemplate format, const Chat& chat, std::string_view bos,
                     bool generation_prompt) {
  NG_CHECK(format != ChatTemplate::none);
  if (is_qwen(format)) return render_qwen(format, chat, generation_prompt);
  const bool is_llama3 = format == ChatTemplate::llama3;
  const Markers& markers = is_llama3 ? kLlama3 : kChatml;
  Document document{.text = "", .targets = {}, .kind = DocumentKind::chat};
  std::string& text = document.text;
  if (is_llama3) text += bos;
  for (const Message& message : chat.messages) {
    (text += markers.before_role) += message.role;
    text += markers.before_content;
    const size_t first = text.size();
    text += markers.trims ? trimmed(message.content) : message.content;
    text += markers.closing;
    if (message.is_target()) document.targets.push_back({first, text.size()});
    text += markers.after;
  }
  if (generation_prompt) ((text += markers.before_role) += "assistant") += markers.before_content;
  return document;
}

std::string_view jinja_of(ChatTemplate format) {
  switch (format) {
    case ChatTemplate::none:
      return "";
    case ChatTemplate::chatml:
      return kChatmlJinja;
    case ChatTemplate::llama3:
      return kLlama3Jinja;
    case ChatTemplate::qwen2_5:
    case ChatTemplate::qwen3:
      return qwen_jinja(format);
  }
  return "";
}

ChatTemplate chat_template_of(std::string_view jinja) {
  for (const auto& [name, format] : kChatTemplates)
    if (jinja == jinja_of(format)) return format;
  return is_chatml(jinja) ? ChatTemplate::chatml : ChatTemplate::none;
}

}  // namespace ng
