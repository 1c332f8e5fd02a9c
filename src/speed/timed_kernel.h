// A kernel whose speed is measured.
#pragma once

#include <functional>
#include <string>

namespace ng {

struct TimedKernel {
  std::string name;
  double bytes_per_element = 0;  ///< read once and written once
  std::function<void()> work;    ///< on all elements
  double best_seconds = 1e30;    ///< of one call
};

}  // namespace ng
