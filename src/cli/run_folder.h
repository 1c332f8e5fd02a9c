// Where a run goes when nobody says: runs/NAME, or the next free number behind it.
#pragma once

#include <string>

namespace ng::cli {

/// "runs/quickstart" for "examples/quickstart.toml"; with runs in it already, "runs/quickstart-2"
/// and so on.
[[nodiscard]] std::string new_run_folder(const std::string& run_file);

/// The last of them that holds a run; the first where none does.
[[nodiscard]] std::string newest_run_folder(const std::string& run_file);

}  // namespace ng::cli
