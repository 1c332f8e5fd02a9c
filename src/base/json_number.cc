#include "base/json_number.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>

#include "base/json.h"

namespace ng {

Json json_number(double value) {
  if (std::isnan(value)) return "nan";  // of either sign
  return std::isfinite(value) ? Json(value) : Json(fmt::format("{}", value));
}

double number_of(const Json& value) {
  return value.is_string() ? std::strtod(value.get<std::string>().c_str(), nullptr)
                           : value.get<double>();
}

double shortest_decimal(float value) {
  return std::strtod(fmt::format("{}", value).c_str(), nullptr);
}

}  // namespace ng
