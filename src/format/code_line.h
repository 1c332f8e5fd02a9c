// The codes of a signed element format as a line of numbers, for host and device. [errata-2, 21]
#pragma once

#include <cmath>
#include <cstdint>

#include "base/host_device.h"
#include "math/round.h"
#include "math/round_integer.h"

namespace ng {

/// Of floats, or of integers.
struct CodeLine {
  FloatGrid grid;
  IntegerGrid integers;
  bool is_integer = false;  ///< else `integers` are not looked at

  /// The spacing of the code's binade; of subnormals the smallest.
  [[nodiscard]] NG_HD double ulp(uint32_t code) const {
    if (is_integer) return std::ldexp(1.0, -integers.mantissa_bits);
    const auto field = static_cast<int>(magnitude(code) >> grid.mantissa_bits);
    return std::ldexp(1.0, (field > 1 ? field : 1) - grid.bias - grid.mantissa_bits);
  }
  /// Of either sign.
  [[nodiscard]] NG_HD bool is_largest(uint32_t code) const {
    if (!is_integer) return magnitude(code) == grid.max_code;
    const auto whole = static_cast<uint32_t>(integers.largest());
    return code == whole || code == ((0u - whole) & mask());
  }
  /// The next larger number of a code that is not the largest.
  [[nodiscard]] NG_HD uint32_t next(uint32_t code) const {
    if (is_integer) return (code + 1) & mask();
    if (magnitude(code) == 0) return 1;
    if ((code & grid.sign_mask) == 0) return code + 1;
    return magnitude(code) == 1 ? 0 : code - 1;
  }

 private:
  [[nodiscard]] NG_HD uint32_t magnitude(uint32_t code) const {
    return code & (grid.sign_mask - 1);
  }
  [[nodiscard]] NG_HD uint32_t mask() const {
    return static_cast<uint32_t>((uint64_t{1} << integers.bits) - 1);
  }
};

}  // namespace ng
