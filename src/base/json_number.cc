#include "base/json_number.h"

#include <fmt/format.h>

#include <cmath>

#include "base/json.h"

namespace ng {

Json json_number(double value) {
  if (std::isnan(value)) return "nan";  // of either sign
  return std::isfinite(value) ? Json(value) : Json(fmt::format("{}", value));
}

}  // namespace ng
