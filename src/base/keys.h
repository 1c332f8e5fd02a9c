// A vocabulary of TOML keys as a table: one row per key says how its value is read, checked and
// printed. Reading a file, the search for the nearest key, printing and documentation derive from
// the rows.
#pragma once

#include <array>
#include <functional>
#include <initializer_list>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "base/toml.h"

namespace ng {

/// What does not depend on where the value goes.
struct KeyRow {
  std::string path;          ///< dotted
  std::string expected;      ///< what a value must be: "a number above 0"
  std::string doc;           ///< what it means, one line
  bool takes_table = false;  ///< `read` understands a table; else a table holds further keys
  std::string_view type = "string";  ///< of TOML: "integer", "strings"; kOperandType
  std::string equation = {};         ///< what is computed with it, where that is one line
  std::string example = {};          ///< a value as TOML; empty: the default
  std::string_view since = "0.1.0";  ///< the first version that knows it
  std::string formerly = {};  ///< the path before it got another name; empty: always this one
  std::string beside = {};    ///< keys of the same table without which the example is refused
  std::string before = {};    ///< lines for other tables without which it is

  /// The path of the first version that knew the key. Older files say it by that, and what hashes
  /// go over does, so that no hash changes with a name.
  [[nodiscard]] const std::string& first_path() const { return formerly.empty() ? path : formerly; }
};

/// Of a key whose value is a format's name or a table of operand keys.
inline constexpr std::string_view kOperandType = "operand";

/// One key of the vocabulary of a T.
template <class T>
struct Key : KeyRow {
  std::function<void(T&, const TomlItem&)> read;  ///< throws Error
  std::function<std::string(const T&)> print;     ///< as TOML; empty: nothing to print
};

template <class T>
using Keys = std::vector<Key<T>>;

/// The known path nearest to an unknown one, whose words are compared with as many at the end of
/// those known: "hadamar" is near "linear.fprop.hadamard". Those that end in the same word come
/// first, so that a key in the wrong table finds its place. Empty where none are known.
[[nodiscard]] std::string nearest_path(std::string_view path,
                                       std::span<const std::string_view> known);

/// Throws Error at the first key below `table` that no row knows, naming the nearest one that does.
void check_known_keys(const toml::table& table, std::span<const KeyRow* const> rows,
                      const std::string& prefix = "");

/// `Row` is a Key or more.
template <class Row>
std::vector<const KeyRow*> rows_of(const std::vector<Row>& keys) {
  std::vector<const KeyRow*> rows;
  for (const Row& key : keys) rows.push_back(&key);
  return rows;
}

/// What `table` says of the row's key, by either of its names. Throws Error where it says both.
[[nodiscard]] std::optional<TomlItem> find_key(const toml::table& table, const KeyRow& row,
                                               const std::string& prefix);

/// Reads the keys that stand in `table` in the order of the rows; others keep their value.
template <class T, class Row>
void read_keys(T& target, const toml::table& table, const std::vector<Row>& keys,
               const std::string& prefix = "") {
  for (const Row& key : keys)
    if (const auto item = find_key(table, key, prefix);
        item && (key.takes_table || !item->value->is_table()))
      key.read(target, *item);
}

/// Every key as "path = value" lines in the order of the rows.
template <class T>
std::string print_keys(const T& source, const Keys<T>& keys) {
  std::string text;
  for (const Key<T>& key : keys)
    if (const std::string value = key.print(source); !value.empty())
      text += key.path + " = " + value + "\n";
  return text;
}

// ---------------------------------------------------------------- kinds of rows
// `get` is a generic lambda from (const) T& to the member: [](auto& t) -> auto& { return t.lr; }.
// A member may be std::optional: empty is not printed.

struct IntegerRange {
  int64_t min = 0;
  int64_t max = std::numeric_limits<int64_t>::max();
};

struct NumberRange {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool above_min = false;  ///< min itself is not allowed
  bool below_max = false;  ///< max itself is not allowed
};

[[nodiscard]] std::string text_of(const IntegerRange& range);
[[nodiscard]] std::string text_of(const NumberRange& range);

[[nodiscard]] int64_t read_integer(const TomlItem& item, const IntegerRange& range);
[[nodiscard]] double read_number(const TomlItem& item, const NumberRange& range);
[[nodiscard]] bool read_boolean(const TomlItem& item);
[[nodiscard]] std::string read_text(const TomlItem& item);
/// A string or an array of strings.
[[nodiscard]] std::vector<std::string> read_texts(const TomlItem& item);
/// Index of a string among `names`; another one is refused by name and with all names.
[[nodiscard]] size_t read_choice(const TomlItem& item, std::span<const std::string_view> names);

[[nodiscard]] std::string print_value(int64_t value);
[[nodiscard]] std::string print_value(float value);
[[nodiscard]] std::string print_value(double value);
[[nodiscard]] std::string print_value(const std::vector<std::string>& value);

/// `print` of the member's value, nothing where the member is empty.
template <class Member, class Print>
std::string print_member(const Member& member, const Print& print) {
  if constexpr (requires { member.has_value(); })
    return member ? print(*member) : "";
  else
    return print(member);
}

template <class T, class Get>
Key<T> integer_key(std::string path, Get get, IntegerRange range, std::string doc) {
  return {{.path = std::move(path),
           .expected = text_of(range),
           .doc = std::move(doc),
           .type = "integer"},
          [=](T& t, const TomlItem& item) {
            get(t) = std::remove_cvref_t<decltype(get(t))>(read_integer(item, range));
          },
          [=](const T& t) {
            return print_member(get(t), [](auto v) { return print_value(int64_t(v)); });
          }};
}

template <class T, class Get>
Key<T> number_key(std::string path, Get get, NumberRange range, std::string doc) {
  return {{.path = std::move(path),
           .expected = text_of(range),
           .doc = std::move(doc),
           .type = "number"},
          [=](T& t, const TomlItem& item) {
            get(t) = std::remove_cvref_t<decltype(get(t))>(read_number(item, range));
          },
          [=](const T& t) { return print_member(get(t), [](auto v) { return print_value(v); }); }};
}

template <class T, class Get>
Key<T> boolean_key(std::string path, Get get, std::string doc) {
  return {{.path = std::move(path),
           .expected = "true or false",
           .doc = std::move(doc),
           .type = "boolean",
           .example = "true"},
          [=](T& t, const TomlItem& item) { get(t) = read_boolean(item); },
          [=](const T& t) {
            return print_member(get(t), [](bool v) { return v ? "true" : "false"; });
          }};
}

template <class T, class Get>
Key<T> text_key(std::string path, Get get, std::string expected, std::string doc) {
  return {{.path = std::move(path), .expected = std::move(expected), .doc = std::move(doc)},
          [=](T& t, const TomlItem& item) { get(t) = read_text(item); },
          [=](const T& t) { return print_member(get(t), toml_quote); }};
}

template <class T, class Get>
Key<T> texts_key(std::string path, Get get, std::string expected, std::string doc) {
  return {{.path = std::move(path),
           .expected = std::move(expected),
           .doc = std::move(doc),
           .type = "strings"},
          [=](T& t, const TomlItem& item) { get(t) = read_texts(item); },
          [=](const T& t) { return print_value(get(t)); }};
}

/// The names of an enumeration, in its order.
template <class Enum>
struct Choices {
  std::vector<std::pair<std::string_view, Enum>> items;

  [[nodiscard]] std::vector<std::string_view> names() const {
    std::vector<std::string_view> all;
    for (const auto& item : items) all.push_back(item.first);
    return all;
  }
  [[nodiscard]] std::string_view name_of(Enum value) const {
    for (const auto& item : items)
      if (item.second == value) return item.first;
    return "";
  }
};

template <class T, class Enum, class Get>
Key<T> choice_key(std::string path, Get get, Choices<Enum> choices, std::string doc) {
  const std::string expected = one_of(choices.names());
  return {{.path = std::move(path),
           .expected = expected,
           .doc = std::move(doc),
           .example = toml_quote(choices.items.back().first)},
          [=](T& t, const TomlItem& item) {
            get(t) = choices.items[read_choice(item, choices.names())].second;
          },
          [=](const T& t) {
            return print_member(get(t), [&](Enum v) { return toml_quote(choices.name_of(v)); });
          }};
}

}  // namespace ng
