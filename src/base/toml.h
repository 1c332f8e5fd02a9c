// TOML text in, toml++ tables out; every failure is an Error with file and line.
#pragma once

#include <toml++/toml.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ng {

/// Largest TOML file read, and the most dots and brackets it may hold: nesting costs stack in the
/// parser and again when the tables go away, and each level needs one of them.
inline constexpr size_t kMaxTomlBytes = size_t{1} << 20;
inline constexpr size_t kMaxTomlNesting = 10'000;

/// Parses `text`. Errors say "<place>:<line>: <what is wrong>".
[[nodiscard]] toml::table parse_toml(std::string_view text, const std::string& place);

/// A key that stands in a document, with its value.
struct TomlItem {
  const toml::node* value = nullptr;
  std::string path;   ///< "linear.fprop.input"
  std::string place;  ///< "recipes/mine.toml:14"

  /// Throws Error{place, path, problem, remedy}.
  [[noreturn]] void refuse(std::string problem, std::string remedy) const;
  /// Throws Error whose problem is the value itself, quoted as TOML.
  [[noreturn]] void refuse_value(std::string remedy) const;
};

/// The value at a dotted path below `table`, if all tables on the way exist. `prefix` (empty or
/// ending in a dot) is what leads to `table` in the document.
[[nodiscard]] std::optional<TomlItem> find_item(const toml::table& table, std::string_view path,
                                                const std::string& prefix);

/// "file:line" of a key.
[[nodiscard]] std::string place_of(const toml::source_region& source);

/// A string as TOML, which is UTF-8: what is none becomes U+FFFD.
[[nodiscard]] std::string toml_quote(std::string_view text);

/// A single key as TOML, quoted where it must be: never to be taken for a dotted path.
[[nodiscard]] std::string toml_key(std::string_view key);

/// A value on one line of TOML, in one canonical form: 1.0 and 1 are the same text.
[[nodiscard]] std::string toml_text(const toml::node& value);

/// Every value below `table` as a dotted path and its text, sorted; empty tables vanish.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> toml_values(
    const toml::table& table);

/// The same in braces on one line: {a.b = 1, c = "d"}.
[[nodiscard]] std::string inline_toml(const toml::table& table);

/// Every value below `table` as "path = value" lines with dotted keys, sorted; empty tables vanish.
[[nodiscard]] std::string toml_lines(const toml::table& table, const std::string& prefix = "");

}  // namespace ng
