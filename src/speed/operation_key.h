// What the time of an operation depends on.
#pragma once

#include <string>

#include "backend/operations.h"

namespace ng {

struct OperationKey {
  std::string text;  ///< its name, shapes and types of its tensors, casts, rules
  std::string kind;  ///< the same without shapes
  double work = 0;   ///< elements of its tensors; of a product, multiplications
};

/// Operations of one text take about as long, in whatever layer, model and recipe they are; large
/// ones of one kind in proportion to their work. Reads no tensor's memory.
[[nodiscard]] OperationKey key_of(const Operation& operation);

}  // namespace ng
