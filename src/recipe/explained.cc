#include "recipe/explained.h"

#include <algorithm>
#include <sstream>

#include "base/toml.h"
#include "recipe/key_facts.h"

namespace ng {
namespace {

/// Where comments begin, unless the line is longer.
constexpr size_t kCommentColumn = 44;

class Meanings {
 public:
  /// Empty where no key is called so.
  [[nodiscard]] std::string of(std::string_view key) const {
    const auto found = std::find_if(facts_.begin(), facts_.end(),
                                    [&](const KeyFacts& facts) { return facts.key == key; });
    return found == facts_.end() ? "" : found->meaning;
  }

 private:
  std::vector<KeyFacts> facts_ = recipe_key_facts();
};

/// Of "key = value" in the list of tables that `list` names with a dot, if any; of an operand's
/// table what its keys mean, too.
std::string comment_of(const Meanings& meanings, const std::string& list, const std::string& line) {
  const std::string key = line.substr(0, line.find(" = "));
  std::string text = meanings.of(list + key);
  if (text.empty()) text = meanings.of(key);
  const toml::table parsed = parse_toml(line, "");
  const std::optional<TomlItem> item = find_item(parsed, key, "");
  if (!item || !item->value->is_table()) return text;
  for (const auto& [below, value] : *item->value->as_table()) {
    const std::string name(below.str());
    if (name != "format") text += fmt::format("; {}: {}", name, meanings.of(key + "." + name));
  }
  return text;
}

}  // namespace

std::string explained_toml(const Recipe& recipe) {
  const Meanings meanings;
  std::istringstream lines(recipe.resolved_toml());
  std::string text, list;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("[[")) list = line.substr(2, line.find("]]") - 2) + ".";
    if (line.find(" = ") != line.npos)
      line = fmt::format("{:<{}}  # {}", line, kCommentColumn, comment_of(meanings, list, line));
    text += line + '\n';
  }
  return text;
}

}  // namespace ng
