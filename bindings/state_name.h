// What a tensor that persists is called beside its owner's name.
#pragma once

#include <string>

#include "base/error.h"
#include "run/persistent.h"

namespace ng::python {

/// "moment1.scale.float32" of "moment1.blocks.0.attn.q.weight.scale": what it is to its owner, and
/// its elements.
[[nodiscard]] inline std::string state_name(const PersistentSpec& row) {
  std::string name = row.name;
  const std::string of = "." + row.owner;
  const size_t at = name.find(of);
  NG_CHECK(at != std::string::npos, name);
  return name.erase(at, of.size()) + "." + std::string(row.element->name);
}

}  // namespace ng::python
