// Where the time of training went.
#pragma once

#include <string>

#include "run/run.h"

namespace ng::cli {

/// Seconds and percent by kind of operation, the longest first; kinds that took nothing left out.
/// `rest`: seconds outside of operations, the last row; 0: not known.
[[nodiscard]] std::string time_table(const TimeByKind& seconds, double rest = 0);

}  // namespace ng::cli
