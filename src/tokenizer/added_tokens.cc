#include "tokenizer/added_tokens.h"

#include <algorithm>

#include "base/utf8.h"
#include "tokenizer/unicode_categories.h"

namespace ng {
namespace {

std::string_view first_character(std::string_view text) {
  return text.substr(0, character_bytes(text.front()));
}

std::string_view last_character(std::string_view text) {
  size_t begin = text.size() - 1;
  while ((static_cast<uint8_t>(text[begin]) & 0xC0) == 0x80) --begin;
  return text.substr(begin);
}

bool is_word(std::string_view character) { return is_word_character(code_point(character)); }

bool is_space(std::string_view character) {
  return category_of(code_point(character)) == Category::space;
}

bool stands_alone(std::string_view before, std::string_view behind) {
  return (before.empty() || !is_word(last_character(before))) &&
         (behind.empty() || !is_word(first_character(behind)));
}

size_t space_at_begin(std::string_view text) {
  size_t bytes = 0;
  while (bytes < text.size() && is_space(first_character(text.substr(bytes))))
    bytes += character_bytes(text[bytes]);
  return bytes;
}

size_t space_at_end(std::string_view text) {
  std::string_view rest = text;
  while (!rest.empty() && is_space(last_character(rest)))
    rest.remove_suffix(last_character(rest).size());
  return text.size() - rest.size();
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  for (size_t i = 0; i < tokens_.size(); ++i) insert(static_cast<int32_t>(i));
}

void AddedTokens::insert(int32_t token) {
  size_t node = 0;
  for (char c : tokens_[static_cast<size_t>(token)].content) {
    const auto byte = static_cast<uint8_t>(c);
    auto& next = nodes_[node].next;
    const auto found =
        std::find_if(next.begin(), next.end(), [&](const auto& e) { return e.first == byte; });
    if (found != next.end()) {
      node = static_cast<size_t>(found->second);
      continue;
    }
    next.emplace_back(byte, static_cast<int32_t>(nodes_.size()));
    node = nodes_.size();
    nodes_.emplace_back();
  }
  nodes_[node].token = token;
}

size_t AddedTokens::find_first_byte(std::string_view text, size_t at) const {
  size_t first = std::string_view::npos;
  for (const auto& [byte, node] : nodes_[0].next)
    first = std::min(first, text.substr(0, first).find(static_cast<char>(byte), at));
  return first;
}

int32_t AddedTokens::longest_at(std::string_view text) const {
  int32_t longest = -1;
  size_t node = 0;
  for (char c : text) {
    const auto& next = nodes_[node].next;
    const auto found = std::find_if(next.begin(), next.end(), [&](const auto& e) {
      return e.first == static_cast<uint8_t>(c);
    });
    if (found == next.end()) break;
    node = static_cast<size_t>(found->second);
    if (nodes_[node].token >= 0) longest = nodes_[node].token;
  }
  return longest;
}

std::vector<AddedTokens::Part> AddedTokens::parts_of(std::string_view text,
                                                     SpecialTokens special) const {
  std::vector<Part> parts;
  size_t done = 0;
  size_t at = find_first_byte(text, 0);
  while (at < text.size()) {
    const int32_t index = longest_at(text.substr(at));
    if (index < 0) {
      at = find_first_byte(text, at + 1);
      continue;
    }
    const AddedToken& token = tokens_[static_cast<size_t>(index)];
    size_t begin = at, end = at + token.content.size();
    at = find_first_byte(text, end);
    if (token.special && special == SpecialTokens::text) continue;
    if (token.single_word && !stands_alone(text.substr(0, begin), text.substr(end))) continue;
    if (token.lstrip) begin = std::max(begin - space_at_end(text.substr(0, begin)), done);
    if (token.rstrip) end += space_at_begin(text.substr(end));
    if (begin >= end) continue;  // nothing is left of it
    if (done < begin) parts.push_back({done, begin, {}});
    parts.push_back({begin, end, token.id});
    done = end;
  }
  if (done < text.size()) parts.push_back({done, text.size(), {}});
  return parts;
}

}  // namespace ng
