#include "data/chatml_jinja.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <string>

namespace ng {
namespace {

constexpr std::string_view kSpace = " \t\r\n";

/// A text as a literal of Jinja; "" where it is empty.
std::string printed(std::string_view text) {
  std::string literal;
  for (const char c : text) literal += c == '\n' ? "\\n" : std::string(1, c);
  return literal.empty() ? "" : "{{'" + literal + "'}}";
}

/// What a tag says, without white space outside of literals, which get single quotes; none where a
/// literal has no end, or quotes in it.
std::optional<std::string> without_space(std::string_view tag) {
  std::string said;
  char quote = 0;
  for (const char c : tag) {
    const bool is_quote = c == '\'' || c == '"';
    if (quote == 0 && is_quote)
      quote = c;
    else if (quote != 0 && is_quote && c != quote)
      return {};
    else if (c == quote)
      quote = 0;
    if (is_quote)
      said += '\'';
    else if (quote != 0)
      said += c == '\n' ? "\\n" : std::string(1, c);
    else if (kSpace.find(c) == std::string_view::npos)
      said += c;
  }
  return quote == 0 ? std::optional(said) : std::nullopt;
}

/// Takes what stands between tags as Jinja does, and the tags one by one.
class TemplateWords {
 public:
  explicit TemplateWords(std::string_view jinja) : left_(jinja) {
    if (left_.ends_with('\n')) left_.remove_suffix(1);
  }

  /// Tags alone, texts between them as printed literals; none where a tag has no end.
  [[nodiscard]] std::optional<std::string> read() {
    std::string words;
    while (!left_.empty()) {
      const size_t begin = std::min({left_.find("{%"), left_.find("{{"), left_.size()});
      const std::string_view text = left_.substr(0, begin);
      left_.remove_prefix(begin);
      words += printed(trimmed_text(text));
      if (left_.empty()) break;
      const std::optional<std::string> tag = read_tag();
      if (!tag) return {};
      words += *tag;
    }
    return words;
  }

 private:
  /// Of the text before the tag that is next.
  [[nodiscard]] std::string_view trimmed_text(std::string_view text) const {
    bool begins_line = is_first_;
    if (strips_behind_) {
      text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
    } else if (is_behind_block_ && text.starts_with('\n')) {
      text.remove_prefix(1);
      begins_line = true;
    }
    if (left_.size() > 2 && left_[2] == '-')
      return text.substr(0, text.find_last_not_of(kSpace) + 1);
    if (!left_.starts_with("{%")) return text;
    const size_t last = text.find_last_not_of(" \t");
    const bool is_line = last == std::string_view::npos ? begins_line : text[last] == '\n';
    return is_line ? text.substr(0, last + 1) : text;
  }

  std::optional<std::string> read_tag() {
    is_first_ = false;
    is_behind_block_ = left_[1] == '%';
    const std::string_view closing = is_behind_block_ ? "%}" : "}}";
    const size_t end = left_.find(closing);
    if (end == std::string_view::npos) return {};
    std::string_view tag = left_.substr(2, end - 2);
    left_.remove_prefix(end + 2);
    strips_behind_ = tag.ends_with('-');
    if (strips_behind_) tag.remove_suffix(1);
    if (tag.starts_with('-')) tag.remove_prefix(1);
    const std::optional<std::string> said = without_space(tag);
    if (!said) return {};
    if (*said == "generation" || *said == "endgeneration") return "";  // marks of targets
    return (is_behind_block_ ? "{%" : "{{") + *said + std::string(closing);
  }

  std::string_view left_;
  bool is_first_ = true, strips_behind_ = false, is_behind_block_ = false;
};

void replace_each(std::string_view from, std::string_view to, std::string* text) {
  for (size_t at = text->find(from); at != std::string::npos; at = text->find(from, at + to.size()))
    text->replace(at, from.size(), to);
}

}  // namespace

bool is_chatml(std::string_view jinja) {
  std::optional<std::string> words = TemplateWords(jinja).read();
  if (!words) return false;
  constexpr std::string_view kDefault =
      "{%ifnotadd_generation_promptisdefined%}{%setadd_generation_prompt=false%}{%endif%}";
  replace_each(kDefault, "", &*words);
  constexpr std::string_view kFor = "{%for", kMessages = "inmessages%}";
  const size_t end = words->find(kMessages);
  if (!words->starts_with(kFor) || end == std::string::npos) return false;
  const std::string one = words->substr(kFor.size(), end - kFor.size());
  std::string said = words->substr(end + kMessages.size());
  for (const char* key : {"role", "content"}) {
    for (const std::string& spelled : {one + "['" + key + "']", one + "." + key})
      replace_each(spelled, std::string("@") + key, &said);
  }
  replace_each("}}{{", "+", &said);
  replace_each("'+'", "", &said);
  constexpr std::string_view kMessage =
      R"({{'<|im_start|>'+@role+'\n'+@content+'<|im_end|>\n'}}{%endfor%})";
  constexpr std::string_view kAnswer =
      R"({%ifadd_generation_prompt%}{{'<|im_start|>assistant\n'}}{%endif%})";
  return said == kMessage || said == std::string(kMessage) + std::string(kAnswer);
}

}  // namespace ng
