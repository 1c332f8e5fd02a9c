// The keys of [data], one row each.
#pragma once

#include "base/keys.h"
#include "train/run_config.h"

namespace ng {

void add_data_keys(Keys<RunConfig>& keys);

}  // namespace ng
