// How far the opening of large files has come.
#pragma once

#include <cstdint>
#include <functional>

namespace ng {

/// Hears, while files are opened, how many of all their bytes have been read. What it throws ends
/// the opening.
using ReadProgress = std::function<void(int64_t done, int64_t bytes)>;

/// Hears the same of one of them.
using BytesRead = std::function<void(int64_t done)>;

}  // namespace ng
