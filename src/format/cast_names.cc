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
  const std::string_view preset = preset_name(name);
  if (preset.empty()) return {};
  return operand_of(preset);
}

}  // namespace ng
