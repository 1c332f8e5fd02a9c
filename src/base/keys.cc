#include "base/keys.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/nearest.h"

namespace ng {
namespace {

/// A longer unknown name is shown and compared by its beginning only.
constexpr size_t kMaxShownName = 60;

std::string_view last_part(std::string_view path) {
  const size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? path : path.substr(dot + 1);
}

/// So many words of a path as `like` has, the last ones.
std::string_view ending_like(std::string_view like, std::string_view path) {
  const auto more = std::ranges::count(path, '.') - std::ranges::count(like, '.');
  for (int64_t word = 0; word < more; ++word) path.remove_prefix(path.find('.') + 1);
  return path;
}

/// The same among rows; a table is compared with tables.
std::string nearest_of_rows(const std::string& path, bool is_table,
                            std::span<const KeyRow* const> rows) {
  std::vector<std::string_view> all;
  for (const KeyRow* row : rows) {
    const std::string_view known = row->path;
    if (!is_table || row->takes_table) all.push_back(known);
    for (size_t dot = known.find('.'); is_table && dot != known.npos;
         dot = known.find('.', dot + 1))
      all.push_back(known.substr(0, dot));
  }
  return nearest_path(path, all);
}

/// What the rows say about a path.
struct Known {
  const KeyRow* row = nullptr;  ///< of the path itself
  bool leads_on = false;        ///< other rows lie below it
};

Known look_up(const std::string& path, std::span<const KeyRow* const> rows) {
  Known known;
  for (const KeyRow* row : rows) {
    if (row->path == path || row->formerly == path) known.row = row;
    known.leads_on |= row->path.starts_with(path) && row->path.size() > path.size() &&
                      row->path[path.size()] == '.';
  }
  return known;
}

void check_table(const toml::table& table, std::span<const KeyRow* const> rows,
                 const std::string& prefix, const std::string& below) {
  for (const auto& [name, value] : table) {
    std::string path = below + toml_key(name.str());
    const Known known = look_up(path, rows);
    const toml::table* inner = value.as_table();
    if (known.row != nullptr && (known.row->takes_table || inner == nullptr)) continue;
    if (known.leads_on && inner != nullptr) {
      check_table(*inner, rows, prefix, path + ".");
      continue;
    }
    if (path.size() > kMaxShownName) path = path.substr(0, kMaxShownName) + "...";
    const TomlItem item{&value, prefix + path, place_of(name.source())};
    if (known.row != nullptr) item.refuse_value(known.row->expected);
    if (known.leads_on) item.refuse_value("a table of keys");
    item.refuse("unknown key", fmt::format("the nearest known key is {}{}", prefix,
                                           nearest_of_rows(path, inner != nullptr, rows)));
  }
}

}  // namespace

std::string nearest_path(std::string_view path, std::span<const std::string_view> known) {
  std::vector<std::string_view> same_word;
  for (const std::string_view candidate : known)
    if (last_part(candidate) == last_part(path)) same_word.push_back(candidate);
  const auto distance = [&](std::string_view candidate) {
    return std::pair(edit_distance(path, ending_like(path, candidate)),
                     edit_distance(path, candidate));
  };
  const std::span<const std::string_view> candidates = same_word.empty() ? known : same_word;
  const auto best = std::ranges::min_element(candidates, {}, distance);
  return best == candidates.end() ? "" : std::string(*best);
}

void check_known_keys(const toml::table& table, std::span<const KeyRow* const> rows,
                      const std::string& prefix) {
  check_table(table, rows, prefix, "");
}

std::optional<TomlItem> find_key(const toml::table& table, const KeyRow& row,
                                 const std::string& prefix) {
  std::optional<TomlItem> item = find_item(table, row.path, prefix);
  if (row.formerly.empty()) return item;
  const std::optional<TomlItem> old = find_item(table, row.formerly, prefix);
  if (old && item)
    old->refuse(fmt::format("is {}{}, which stands there, too", prefix, row.path),
                fmt::format("only {}{}", prefix, row.path));
  return old ? old : item;
}

std::string text_of(const IntegerRange& range) {
  if (range.max == std::numeric_limits<int64_t>::max())
    return fmt::format("a whole number, at least {}", range.min);
  return fmt::format("a whole number from {} to {}", range.min, range.max);
}

std::string text_of(const NumberRange& range) {
  const bool low = std::isfinite(range.min), high = std::isfinite(range.max);
  if (low && high && !range.above_min && !range.below_max)
    return fmt::format("a number from {} to {}", range.min, range.max);
  std::string text = "a number";
  if (low) text += fmt::format(" {} {}", range.above_min ? "above" : "at least", range.min);
  if (low && high) text += " and";
  if (high) text += fmt::format(" {} {}", range.below_max ? "below" : "at most", range.max);
  return text;
}

int64_t read_integer(const TomlItem& item, const IntegerRange& range) {
  const toml::value<int64_t>* value = item.value->as_integer();
  if (value == nullptr || value->get() < range.min || value->get() > range.max)
    item.refuse_value(text_of(range));
  return value->get();
}

double read_number(const TomlItem& item, const NumberRange& range) {
  const std::optional<double> value =
      item.value->is_number() ? item.value->value<double>() : std::nullopt;
  const bool good = value && std::isfinite(*value) &&
                    (range.above_min ? *value > range.min : *value >= range.min) &&
                    (range.below_max ? *value < range.max : *value <= range.max);
  if (!good) item.refuse_value(text_of(range));
  return *value;
}

bool read_boolean(const TomlItem& item) {
  if (!item.value->is_boolean()) item.refuse_value("true or false");
  return item.value->as_boolean()->get();
}

std::string read_text(const TomlItem& item) {
  if (!item.value->is_string()) item.refuse_value("a string");
  return item.value->as_string()->get();
}

std::vector<std::string> read_texts(const TomlItem& item) {
  constexpr const char* kExpected = "a string or a list of strings, none of them empty";
  std::vector<std::string> texts;
  if (const toml::array* array = item.value->as_array()) {
    for (const toml::node& element : *array) {
      if (!element.is_string()) item.refuse_value(kExpected);
      texts.push_back(element.as_string()->get());
    }
  } else if (item.value->is_string()) {
    texts.push_back(item.value->as_string()->get());
  }
  const bool any_empty =
      std::any_of(texts.begin(), texts.end(), [](const std::string& text) { return text.empty(); });
  if (texts.empty() || any_empty) item.refuse_value(kExpected);
  return texts;
}

size_t read_choice(const TomlItem& item, std::span<const std::string_view> names) {
  if (!item.value->is_string()) item.refuse_value(one_of(names));
  const std::string& name = item.value->as_string()->get();
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end())
    item.refuse("unknown " + toml_quote(name.substr(0, kMaxShownName)), one_of(names));
  return size_t(found - names.begin());
}

std::string print_value(int64_t value) { return fmt::format("{}", value); }
std::string print_value(float value) { return fmt::format("{}", value); }
std::string print_value(double value) { return fmt::format("{}", value); }

std::string print_value(const std::vector<std::string>& value) {
  std::string text = "[";
  for (const std::string& item : value) text += (text.size() > 1 ? ", " : "") + toml_quote(item);
  return text + "]";
}

}  // namespace ng
