#include "data/python_json.h"

#include <fmt/format.h>

#include "base/json.h"

namespace ng {
namespace {

// The shortest text that reads back as the number, as repr() gives it: fmt's has no ".0".
std::string python_float(double value) {
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

void add_value(const OrderedJson& value, std::string& text);

void add_object(const OrderedJson& object, std::string& text) {
  text += '{';
  bool follows = false;
  for (const auto& [key, value] : object.items()) {
    if (follows) text += ", ";
    follows = true;
    (text += json_text(OrderedJson(key))) += ": ";
    add_value(value, text);
  }
  text += '}';
}

void add_list(const OrderedJson& list, std::string& text) {
  text += '[';
  bool follows = false;
  for (const OrderedJson& value : list) {
    if (follows) text += ", ";
    follows = true;
    add_value(value, text);
  }
  text += ']';
}

void add_value(const OrderedJson& value, std::string& text) {
  if (value.is_object()) return add_object(value, text);
  if (value.is_array()) return add_list(value, text);
  text += value.is_number_float() ? python_float(value.get<double>()) : json_text(value);
}

}  // namespace

std::string python_json(const OrderedJson& value) {
  std::string text;
  add_value(value, text);
  return text;
}

}  // namespace ng
