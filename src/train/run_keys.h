// The keys of the run file, one row each.
#pragma once

#include "base/keys.h"
#include "train/run_config.h"

namespace ng {

[[nodiscard]] const Keys<RunConfig>& run_keys();

}  // namespace ng
