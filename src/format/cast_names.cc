#include "format/cast_names.h"

namespace ng {

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
