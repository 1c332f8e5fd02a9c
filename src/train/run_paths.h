// Paths in a run file: relative to the file where that is there, else to the folder of the call.
#pragma once

#include <string>

#include "train/run_config.h"

namespace ng {

/// "" for a file in the folder of the call.
[[nodiscard]] std::string folder_of_file(const std::string& path);

/// Each path that the file itself gave becomes that of what lies beside the file, where something
/// does; names of prepared texts, tokenizers and recipes are none.
void take_paths_beside(RunConfig& config);

}  // namespace ng
