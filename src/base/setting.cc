#include "base/setting.h"

#include "base/error.h"
#include "base/text.h"

namespace ng {
namespace {

std::string trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(' ');
  if (first == std::string_view::npos) return "";
  return std::string(text.substr(first, text.find_last_not_of(' ') - first + 1));
}

/// "phase[1].start" as TOML has it, by a table: phase.1.start.
std::string with_numbers_as_keys(std::string key) {
  for (size_t open = key.find('['); open != key.npos; open = key.find('[', open)) {
    const size_t close = key.find(']', open);
    const std::string_view number = std::string_view(key).substr(open + 1, close - open - 1);
    if (close == key.npos || number.empty() || number.find_first_not_of("0123456789") != key.npos)
      break;
    key.replace(open, close - open + 1, fmt::format(".{}", number));
  }
  return key;
}

}  // namespace

std::string setting_place(const std::string& setting) { return "--set " + setting.substr(0, 60); }

toml::table parse_setting(const std::string& setting) {
  const std::string place = setting_place(setting);
  if (!is_utf8(setting)) throw Error({place, "", "is not UTF-8", "TOML holds nothing else"});
  const size_t equals = setting.find('=');
  const std::string key =
      with_numbers_as_keys(trimmed(std::string_view(setting).substr(0, equals)));
  if (equals == std::string::npos || key.empty() ||
      key.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_.") != std::string::npos)
    throw Error({place, "", "not a setting", "key=value, e.g. train.steps=50"});
  const std::string value = trimmed(std::string_view(setting).substr(equals + 1));
  const auto parse = [&](const std::string& text) { return parse_toml(key + " = " + text, place); };
  if (value.find_first_of("\n\r") == std::string::npos) {
    try {
      return parse(value);
    } catch (const Error&) {  // not TOML: a bare word
    }
  }
  return parse(toml_quote(value));
}

}  // namespace ng
