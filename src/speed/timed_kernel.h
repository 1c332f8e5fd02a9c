// A kernel whose speed is measured.
#pragma once

#include <functional>
#include <string>

#include "backend/backend_memory.h"

namespace ng {

struct TimedKernel {
  std::string name;
  double bytes_per_element = 0;  ///< read once and written once
  std::function<void()> work;    ///< on all elements
  double flops_per_element = 0;  ///< where arithmetic bounds it: attention
  double best_seconds = 1e30;    ///< of one call
};

/// Rows of FP32 without gaps that lie in it.
[[nodiscard]] inline View fp32_in(const BackendMemory& memory, int64_t rows, int64_t cols) {
  return {memory.floats(), rows, cols, cols};
}

}  // namespace ng
