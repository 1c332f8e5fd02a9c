#include "base/toml.h"

#include <algorithm>
#include <sstream>

#include "base/error.h"
#include "base/text.h"

namespace ng {
namespace {

/// Long values in an error message are cut here.
constexpr size_t kMaxQuotedBytes = 60;

/// Values nested deeper than any key of ours takes are printed as "...".
constexpr int kMaxPrintedDepth = 8;

bool is_bare_key(std::string_view key) {
  return !key.empty() && std::all_of(key.begin(), key.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  });
}

std::string value_text(const toml::node& value, int depth);

std::string array_text(const toml::array& array, int depth) {
  std::string text = "[";
  for (const toml::node& item : array)
    text += (text.size() > 1 ? ", " : "") + value_text(item, depth + 1);
  return text + "]";
}

std::string inline_table_text(const toml::table& table, int depth) {
  std::string text = "{";
  for (const auto& [key, value] : table)
    text +=
        (text.size() > 1 ? ", " : "") + toml_key(key.str()) + " = " + value_text(value, depth + 1);
  return text + "}";
}

template <class Value>
std::string date_text(const toml::value<Value>& value) {
  std::ostringstream text;
  text << value;
  return text.str();
}

std::string value_text(const toml::node& value, int depth) {
  if (depth > kMaxPrintedDepth) return "...";
  switch (value.type()) {
    case toml::node_type::string:
      return toml_quote(value.as_string()->get());
    case toml::node_type::integer:
      return fmt::format("{}", value.as_integer()->get());
    case toml::node_type::floating_point:
      return fmt::format("{}", value.as_floating_point()->get());
    case toml::node_type::boolean:
      return value.as_boolean()->get() ? "true" : "false";
    case toml::node_type::array:
      return array_text(*value.as_array(), depth);
    case toml::node_type::table:
      return inline_table_text(*value.as_table(), depth);
    case toml::node_type::date:
      return date_text(*value.as_date());
    case toml::node_type::time:
      return date_text(*value.as_time());
    case toml::node_type::date_time:
      return date_text(*value.as_date_time());
    case toml::node_type::none:
      break;
  }
  return "";
}

}  // namespace

toml::table parse_toml(std::string_view text, const std::string& place) {
  const auto nesting = [](char c) { return c == '.' || c == '[' || c == '{'; };
  if (text.size() > kMaxTomlBytes)
    throw Error({place, "", fmt::format("{} bytes", text.size()),
                 fmt::format("at most {} bytes of TOML", kMaxTomlBytes)});
  if (size_t(std::count_if(text.begin(), text.end(), nesting)) > kMaxTomlNesting)
    throw Error({place, "", "too deep or too large for a TOML file of settings",
                 fmt::format("at most {} dots and opening brackets", kMaxTomlNesting)});
  try {
    return toml::parse(text, place);
  } catch (const toml::parse_error& error) {
    throw Error({place_of(error.source()), "", std::string(error.description()), ""});
  }
}

void TomlItem::refuse(std::string problem, std::string remedy) const {
  throw Error({place, path, std::move(problem), std::move(remedy)});
}

void TomlItem::refuse_value(std::string remedy) const {
  std::string text = toml_text(*value);
  if (text.size() > kMaxQuotedBytes) text = text.substr(0, kMaxQuotedBytes) + "...";
  refuse(std::move(text), std::move(remedy));
}

std::optional<TomlItem> find_item(const toml::table& table, std::string_view path,
                                  const std::string& prefix) {
  const toml::table* at = &table;
  for (std::string_view rest = path;;) {
    const size_t dot = rest.find('.');
    const auto found = at->find(rest.substr(0, dot));
    if (found == at->end()) return std::nullopt;
    if (dot == std::string_view::npos)
      return TomlItem{&found->second, prefix + std::string(path), place_of(found->first.source())};
    at = found->second.as_table();
    if (at == nullptr) return std::nullopt;
    rest.remove_prefix(dot + 1);
  }
}

std::string place_of(const toml::source_region& source) {
  const std::string file = source.path ? *source.path : "";
  if (source.begin.line == 0 || file.starts_with("--")) return file;  // a flag has no lines
  return fmt::format("{}:{}", file, source.begin.line);
}

std::string toml_quote(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : as_utf8(text)) {
    if (c == '"' || c == '\\')
      quoted += {'\\', c};
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      quoted += fmt::format("\\u{:04X}", static_cast<unsigned>(c));
    else
      quoted += c;
  }
  return quoted + "\"";
}

std::string toml_key(std::string_view key) {
  return is_bare_key(key) ? std::string(key) : toml_quote(key);
}

std::string toml_text(const toml::node& value) { return value_text(value, 0); }

namespace {

using TomlValues = std::vector<std::pair<std::string, std::string>>;

void add_values(TomlValues& values, const toml::table& table, const std::string& prefix) {
  for (const auto& [key, value] : table) {
    const std::string path = prefix + toml_key(key.str());
    if (const toml::table* below = value.as_table())
      add_values(values, *below, path + ".");
    else
      values.emplace_back(path, toml_text(value));
  }
}

}  // namespace

std::vector<std::pair<std::string, std::string>> toml_values(const toml::table& table) {
  TomlValues values;
  add_values(values, table, "");
  return values;
}

std::string inline_toml(const toml::table& table) {
  std::string text = "{";
  for (const auto& [path, value] : toml_values(table))
    text += fmt::format("{}{} = {}", text.size() > 1 ? ", " : "", path, value);
  return text + "}";
}

std::string toml_lines(const toml::table& table, const std::string& prefix) {
  std::string lines;
  for (const auto& [path, value] : toml_values(table))
    lines += fmt::format("{}{} = {}\n", prefix, path, value);
  return lines;
}

}  // namespace ng
