// What train takes, and who starts it for several ranks.
#pragma once

#include <string>

#include "cli/shared_flags.h"

namespace ng::cli {

/// In the environment of what a supervisor starts.
inline constexpr const char* kSupervised = "NARROWGAUGE_SUPERVISED";

struct TrainFlags {
  RunFlags run;
  std::string out;
  bool resume = false;

  void declare(Flags flags);
  /// --out; else the folder that a new run gets, or the newest where it is to be resumed.
  [[nodiscard]] std::string folder() const;
};

}  // namespace ng::cli
