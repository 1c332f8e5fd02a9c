// Paths in a run file: relative to the file where that is there, else to the folder of the call.
#pragma once

#include <string>

#include "train/run_config.h"

namespace ng {

/// "" for a file in the folder of the call.
[[nodiscard]] std::string folder_of_file(const std::string& path);

/// A recipe of a file in `folder`: of a path, that beside the file where it is there.
[[nodiscard]] std::string recipe_beside(const std::string& recipe, const std::string& folder);

/// Each other path that the file itself gave becomes that of what lies beside the file, where
/// something does; names of prepared texts, tokenizers and recipes are none.
void take_paths_beside(RunConfig& config);

}  // namespace ng
