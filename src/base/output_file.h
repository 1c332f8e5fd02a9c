// Files that commands write: none may be one that they read.
#pragma once

#include <string>

namespace ng {

/// Throws Error where the file `out` is the file `in`, by whatever names; `key` is the flag that
/// names `out`, or empty.
void refuse_input(const std::string& out, const std::string& in, const std::string& key = "");

/// The same for every file of a folder.
void refuse_files_of(const std::string& folder, const std::string& out);

}  // namespace ng
