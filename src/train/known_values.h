// Values that the checks before step 1 compute with: the same in every run.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "math/normal.h"

namespace ng {

/// Normal values over some binades, as activations, weights and gradients have them; others for
/// each `tensor`.
[[nodiscard]] inline std::vector<float> known_values(int64_t count, uint32_t tensor,
                                                     float deviation) {
  std::vector<float> values(static_cast<size_t>(count));
  math::fill_normal({.seed = 5, .tensor = tensor}, deviation, values);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = std::ldexp(values[i], static_cast<int>(i / 64 % 5) - 2);
  return values;
}

}  // namespace ng
