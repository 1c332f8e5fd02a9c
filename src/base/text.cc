#include "base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "base/utf8.h"

namespace ng {
namespace {

// C0, DEL and C1 (U+0080 ... U+009F are C2 80 ... C2 9F).
bool is_control(std::string_view character) {
  const uint8_t first = byte_at(character, 0);
  if (character.size() == 1) return first < 0x20 || first == 0x7F;
  return first == 0xC2 && byte_at(character, 1) < 0xA0;
}

void append_printable(std::string& out, std::string_view character) {
  if (!is_control(character) || character == "\n" || character == "\t")
    out += character;
  else if (character != "\r")
    out += kReplacementCharacter;
}

void append_escaped(std::string& out, std::string_view bytes) {
  if (bytes == "\n")
    out += "\\n";
  else if (bytes == "\t")
    out += "\\t";
  else
    for (size_t i = 0; i < bytes.size(); ++i) out += fmt::format("\\x{:02x}", byte_at(bytes, i));
}

constexpr std::string_view kComment = "# ";

template <class Body>
void for_lines(std::string_view text, const Body& body) {
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    body(text.substr(begin, end - begin));
    begin = end + 1;
  }
}

}  // namespace

std::string on_one_line(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const Utf8Character c = next_character(text);
    const std::string_view bytes = text.substr(0, c.bytes);
    if (c.valid && !is_control(bytes))
      out += bytes;
    else
      append_escaped(out, bytes);
    text.remove_prefix(c.bytes);
  }
  return out;
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const Utf8Character c = next_character(text);
    if (!c.valid) return false;
    text.remove_prefix(c.bytes);
  }
  return true;
}

std::string as_utf8(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const Utf8Character c = next_character(text);
    out += c.valid ? text.substr(0, c.bytes) : kReplacementCharacter;
    text.remove_prefix(c.bytes);
  }
  return out;
}

std::string TextFilter::push(std::string_view bytes) {
  held_ += bytes;
  std::string out;
  std::string_view rest = held_;
  while (!rest.empty()) {
    const Utf8Character c = next_character(rest);
    if (c.unfinished) break;
    append_printable(out, c.valid ? rest.substr(0, c.bytes) : kReplacementCharacter);
    rest.remove_prefix(c.bytes);
  }
  held_ = std::string(rest);
  return out;
}

std::string TextFilter::finish() {
  const bool unfinished = !held_.empty();
  held_.clear();
  return std::string(unfinished ? kReplacementCharacter : "");
}

std::string readable(std::string_view bytes) {
  TextFilter filter;
  std::string text = filter.push(bytes);
  return text + filter.finish();
}

std::vector<std::string> split_at_commas(std::string_view list) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    parts.emplace_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::string one_of(std::span<const std::string_view> names) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? " or " : ", ";
    text += names[i];
  }
  return text;
}

std::string commented(std::string_view lines) {
  std::string text;
  for_lines(lines, [&](std::string_view line) { text.append(kComment).append(line) += '\n'; });
  return text;
}

std::string uncommented(std::string_view lines) {
  std::string text;
  for_lines(lines, [&](std::string_view line) {
    if (line.starts_with(kComment)) line.remove_prefix(kComment.size());
    text.append(line) += '\n';
  });
  return text;
}

std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) quoted.append(c == '"' ? 2 : 1, c);
  return quoted + '"';
}

std::string shell_quoted(std::string_view argument) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=,:+@%";
  if (!argument.empty() && argument.find_first_not_of(kPlain) == std::string_view::npos)
    return std::string(argument);
  std::string quoted = "'";
  for (const char c : argument) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

}  // namespace ng
