// The header of a .npy file. [numpy.lib.format, versions 1 to 3]
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ng {

inline constexpr std::string_view kNpyMagic = "\x93NUMPY";

struct NpyHeader {
  uint64_t bytes = 0;  ///< before the first value
  std::string dtype;   ///< "<u2"
  int64_t values = 0;  ///< product of one or two sizes
};

/// Of a file that begins with kNpyMagic. Throws Error at `place` for anything but one or two
/// dimensions in C order.
[[nodiscard]] NpyHeader parse_npy_header(std::string_view begin, const std::string& place);

/// A header of 128 bytes for one dimension; `dtype`: "<u2".
[[nodiscard]] std::string npy_header(std::string_view dtype, int64_t values);

}  // namespace ng
