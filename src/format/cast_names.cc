#include "format/cast_names.h"

#include <algorithm>

#include "base/error.h"
#include "base/nearest.h"

namespace ng {

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

std::string_view preset_name(std::string_view name) {
  for (const std::string_view preset : operand_names()) {
    if (name == preset) return preset;
    const Operand operand = operand_of(preset);
    const ElementFormat& element = *operand.element;
    if (operand.is_unscaled() && preset == element.short_name && name == element.name)
      return preset;
  }
  return {};
}

std::optional<Operand> find_cast(std::string_view name) {
  if (const std::string_view preset = preset_name(name); !preset.empty()) return operand_of(preset);
  for (const ElementFormat& element : element_formats()) {
    if (!is_affine_element(element) || name != element.name) continue;
    Operand operand;
    operand.element = &element;
    operand.scale = ScaleKind::fp32;
    operand.block = {.kind = Block::Kind::row};
    return operand;
  }
  return {};
}

std::vector<std::string_view> cast_names() {
  std::vector<std::string_view> names(operand_names().begin(), operand_names().end());
  for (const ElementFormat& element : element_formats())
    if (is_affine_element(element)) names.push_back(element.name);
  return names;
}

bool is_affine_element(const ElementFormat& element) {
  return element.kind == ElementKind::integer && !element.is_signed;
}

}  // namespace ng
