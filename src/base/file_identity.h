// Which file there is at a path.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

namespace ng {

/// Equal for every name and link of one file, another for each other.
struct FileIdentity {
  uint64_t device = 0, number = 0;
  auto operator<=>(const FileIdentity&) const = default;
};

/// Throws SystemError where there is none.
[[nodiscard]] FileIdentity file_identity(const std::string& path);

}  // namespace ng
