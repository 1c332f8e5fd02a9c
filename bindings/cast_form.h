// A cast for whoever makes it otherwise: narrowgauge.torch's operations.
#pragma once

#include <fmt/format.h>

#include "base/json.h"
#include "format/operand_table.h"

namespace ng::python {

/// Its keys as TOML and the names of its elements.
[[nodiscard]] inline Json cast_form(const Operand& cast) {
  Operand plain;
  plain.element = cast.element;
  std::string keys;
  for (const OperandKey* key : differences(cast, plain))
    if (key->path != "format" && key->path != "element")
      keys += fmt::format("{} = {}\n", key->path, toml_of(*key, word_of(*key, cast)));
  Json elements = Json::array({cast.element->name});
  if (cast.other != nullptr) elements.push_back(cast.other->name);
  return {{"keys", keys}, {"elements", std::move(elements)}};
}

}  // namespace ng::python
