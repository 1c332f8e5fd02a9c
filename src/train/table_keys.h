// The rows of one table of the run file.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/keys.h"
#include "train/run_config.h"

namespace ng {

using RunKey = Key<RunConfig>;

/// Adds them to the keys: `of` is from a RunConfig to what `member` is of. Each returns its row,
/// for what few rows say more.
template <class Of>
class TableKeys {
 public:
  TableKeys(Keys<RunConfig>& keys, std::string table, Of of)
      : keys_(keys), table_(std::move(table)), of_(of) {}

  KeyRow& text(const char* name, auto member, std::string expected, const char* doc) {
    return add(text_key<RunConfig>(table_ + name, get(member), std::move(expected), doc));
  }
  KeyRow& texts(const char* name, auto member, const char* expected, const char* doc) {
    return add(texts_key<RunConfig>(table_ + name, get(member), expected, doc));
  }
  KeyRow& integer(const char* name, auto member, IntegerRange range, const char* doc) {
    return add(integer_key<RunConfig>(table_ + name, get(member), range, doc));
  }
  KeyRow& number(const char* name, auto member, NumberRange range, const char* doc) {
    return add(number_key<RunConfig>(table_ + name, get(member), range, doc));
  }
  KeyRow& boolean(const char* name, auto member, const char* doc) {
    return add(boolean_key<RunConfig>(table_ + name, get(member), doc));
  }
  template <class Enum>
  KeyRow& choice(const char* name, auto member, Choices<Enum> choices, const char* doc) {
    return add(choice_key<RunConfig>(table_ + name, get(member), std::move(choices), doc));
  }
  /// One of a few names.
  KeyRow& word(const char* name, auto member, std::vector<std::string_view> names,
               const char* doc) {
    text(name, member, one_of(names), doc);
    keys_.back().read = [=, get = get(member)](RunConfig& c, const TomlItem& item) {
      get(c) = names[read_choice(item, names)];
    };
    return keys_.back();
  }
  /// A key is printed only where its text is not empty, and cannot be set to that.
  KeyRow& optional_text(const char* name, auto member, std::string expected, const char* doc) {
    text(name, member, expected, doc);
    keys_.back().read = [=, get = get(member)](RunConfig& c, const TomlItem& item) {
      get(c) = read_text(item);
      if (get(c).empty()) item.refuse("\"\"", expected);
    };
    keys_.back().print = [get = get(member)](const RunConfig& c) {
      return get(c).empty() ? "" : toml_quote(get(c));
    };
    return keys_.back();
  }

 private:
  KeyRow& add(RunKey key) { return keys_.emplace_back(std::move(key)); }
  auto get(auto member) const {
    return [ of = of_, member ](auto& c) -> auto& {
      return std::invoke(member, std::invoke(of, c));
    };
  }

  Keys<RunConfig>& keys_;
  std::string table_;
  Of of_;
};

}  // namespace ng
