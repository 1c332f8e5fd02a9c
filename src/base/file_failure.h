// How base/files reports what the operating system refused.
#pragma once

#include <string>
#include <string_view>

namespace ng {

/// Throws SystemError{path, "cannot <action>: <what errno means>", <what to do about it>}.
[[noreturn]] void fail_on(const std::string& path, std::string_view action, int error);

}  // namespace ng
