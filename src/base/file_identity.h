// Which file there is at a path.
#pragma once

#include <cstdint>
#include <string>
#include <tuple>

namespace ng {

/// Equal for every name and link of one file, another for each other.
struct FileIdentity {
  uint64_t device = 0, number = 0;

  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
  friend bool operator<(const FileIdentity& a, const FileIdentity& b) {
    return std::tie(a.device, a.number) < std::tie(b.device, b.number);
  }
};

/// Throws SystemError where there is none.
[[nodiscard]] FileIdentity file_identity(const std::string& path);

}  // namespace ng
