// Where a run goes when nobody says: runs/NAME, or the next free number behind it.
#pragma once

#include <string>

namespace ng {

/// "runs/quickstart" for "examples/quickstart.toml"
[[nodiscard]] std::string first_run_folder(const std::string& run_file);

/// That, or the first of "runs/quickstart-2", ... that holds no run yet.
[[nodiscard]] std::string new_run_folder(const std::string& run_file);

/// The last of them that holds a run; the first where none does.
[[nodiscard]] std::string newest_run_folder(const std::string& run_file);

}  // namespace ng
