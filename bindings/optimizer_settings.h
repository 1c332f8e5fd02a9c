// The constants of an optimizer as Python hands them over.
#pragma once

#include "bind.h"
#include "optim/optimizer.h"

namespace ng::python {

/// Of a dict with every field by its name.
[[nodiscard]] inline OptimizerSettings optimizer_settings_of(const nb::dict& given) {
  const auto number = [&](const char* key) { return nb::cast<float>(given[key]); };
  return {.beta1 = number("beta1"),
          .beta2 = number("beta2"),
          .eps = number("eps"),
          .weight_decay = number("weight_decay"),
          .heads = nb::cast<int64_t>(given["heads"]),
          .kv_heads = nb::cast<int64_t>(given["kv_heads"]),
          .least_narrow = nb::cast<int64_t>(given["least_narrow"]),
          .decays_vectors = nb::cast<bool>(given["decays_vectors"])};
}

}  // namespace ng::python
