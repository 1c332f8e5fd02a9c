#include "cli/format_names.h"

#include <algorithm>

#include "base/error.h"
#include "base/nearest.h"

namespace ng::cli {

bool is_operand_name(std::string_view name) {
  const auto names = operand_names();
  return std::find(names.begin(), names.end(), name) != names.end();
}

const ElementFormat& known_element(const std::string& name) {
  if (const ElementFormat* known = find_element_format(name)) return *known;
  std::vector<std::string_view> names(operand_names().begin(), operand_names().end());
  for (const ElementFormat& format : element_formats()) {
    names.push_back(format.short_name);
    names.push_back(format.name);
  }
  throw Error({.place = "format",
               .key = "",
               .problem = fmt::format("unknown \"{}\"", name),
               .remedy = did_you_mean(name, names) + "narrowgauge formats lists all"});
}

}  // namespace ng::cli
