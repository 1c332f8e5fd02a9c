// Files that commands write: none may be one that they read.
#pragma once

#include <functional>
#include <string>

namespace ng {

/// Throws Error where the file `out` is the file `in`, by whatever names; `key` is the flag that
/// names `out`, or empty.
void refuse_input(const std::string& out, const std::string& in, const std::string& key = "");

/// The same for every file of a folder.
void refuse_files_of(const std::string& folder, const std::string& out);

/// Throws Error where no file can come to be at `out`, or one is there with anything in it that
/// `is_own` does not know; `what` it would have to be: "a trace".
void require_target(const std::string& out, const std::string& what,
                    const std::function<bool(const std::string& path)>& is_own);

}  // namespace ng
