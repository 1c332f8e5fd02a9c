// Sizes, durations and counts as people read them.
#pragma once

#include <cstdint>
#include <string>

namespace ng {

/// "12.3 MiB"
[[nodiscard]] std::string size_text(double bytes);
/// "1m52s", "3h05m"
[[nodiscard]] std::string duration_text(double seconds);
/// "4,712,960"
[[nodiscard]] std::string count_text(int64_t count);

}  // namespace ng
