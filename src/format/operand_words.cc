// Values of an operand's keys as the words of a command line, and those as TOML.
#include <fmt/format.h>

#include <charconv>
#include <cstdlib>

#include "base/text.h"
#include "base/toml.h"
#include "format/operand_table.h"

namespace ng {
namespace {

using Kind = OperandKeyUse::Kind;

/// A number as TOML has it; empty where it is none.
std::string number_text(const std::string& word) {
  char* end = nullptr;
  const long long whole = std::strtoll(word.c_str(), &end, 0);
  if (!word.empty() && *end == 0) return std::to_string(whole);
  double number = 0;  // whatever the process' locale has for a point
  const auto [behind, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  return error == std::errc{} && behind == word.data() + word.size() ? print_value(number) : "";
}

/// "RxC" as TOML; other words as strings.
std::string block_toml(const std::string& block) {
  const size_t x = block.find('x');
  const auto digits = [](std::string_view s) {
    return !s.empty() && s.size() < 10 && s.find_first_not_of("0123456789") == s.npos;
  };
  if (x == std::string::npos || !digits(block.substr(0, x)) || !digits(block.substr(x + 1)))
    return toml_quote(block);
  return fmt::format("[{}, {}]", std::stoi(block.substr(0, x)), std::stoi(block.substr(x + 1)));
}

/// "A,B" as a list of TOML, one number as itself; other words as strings.
std::string numbers_toml(const std::string& words) {
  std::string list;
  for (const std::string& word : split_at_commas(words)) {
    const std::string number = number_text(word);
    if (number.empty()) return toml_quote(words);
    list += (list.empty() ? "" : ", ") + number;
  }
  return list.find(',') == std::string::npos ? list : "[" + list + "]";
}
}  // namespace

std::string word_of(const OperandKey& key, const Operand& operand) {
  std::string word;
  for (const char c : key.print(operand))
    if (c != '"' && c != '[' && c != ']' && c != ' ')
      word += c == ',' && key.kind == Kind::block ? 'x' : c;
  return word;
}

std::string toml_of(const OperandKey& key, const std::string& word) {
  switch (key.kind) {
    case Kind::name:
      return toml_quote(word);
    case Kind::block:
      return block_toml(word);
    case Kind::numbers:
      return numbers_toml(word);
    case Kind::boolean:
      return word;
    default: {
      const std::string number = number_text(word);
      return number.empty() ? toml_quote(word) : number;
    }
  }
}

}  // namespace ng
