// Names for what is written under another name first: "<name>.tmp-<process>-<n>", long names cut.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>

namespace ng {

/// Stands between a name and the process that writes it.
inline constexpr std::string_view kTemporaryMark = ".tmp-";

/// The n-th temporary name of this process for a path, in the same folder.
[[nodiscard]] std::string temporary_name(const std::string& path, int n);

/// The last name of a path as it begins temporary ones: cut where they would be too long.
[[nodiscard]] std::string name_with_room(const std::string& path);

/// What a temporary name says.
struct TemporaryName {
  std::string_view of;  ///< the name that it is for, cut
  pid_t maker = 0;
};
/// None for a name that temporary_name() does not make: it is somebody else's.
[[nodiscard]] std::optional<TemporaryName> parse_temporary_name(std::string_view name);

/// Whether a process of this machine has that id.
[[nodiscard]] bool is_running(pid_t process);

}  // namespace ng
