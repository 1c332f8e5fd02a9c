// What train takes, and who starts it for several ranks.
#pragma once

#include <CLI/App.hpp>
#include <string>

#include "cli/flags.h"

namespace ng::cli {

/// In the environment of what a supervisor starts.
inline constexpr const char* kSupervised = "NARROWGAUGE_SUPERVISED";

struct TrainFlags {
  RunFlags run;
  std::string out;
  bool resume = false;

  void declare(CLI::App& app);
  /// --out; else the folder that a new run gets, or the newest where it is to be resumed.
  [[nodiscard]] std::string folder() const;
};

}  // namespace ng::cli
