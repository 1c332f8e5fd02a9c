// The files that a folder or a pattern means.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ng {

struct MatchedFiles {
  std::vector<std::string> files;
  std::vector<std::string> others;  ///< not matched, in folders whose files were
};

[[nodiscard]] bool is_pattern(std::string_view name);

/// As find_texts has patterns; both lists sorted by bytes. A link back to a folder on the way is
/// not followed. Throws Error for a folder that cannot be read.
[[nodiscard]] MatchedFiles files_of_pattern(const std::string& pattern);

/// Those of the folder and below it whose names end so: FOLDER/**/*ENDING.
[[nodiscard]] MatchedFiles files_of_folder(const std::string& folder, const std::string& ending);

}  // namespace ng
