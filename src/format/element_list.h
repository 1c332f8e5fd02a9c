// Blocks that choose between two elements under one scale: E2M1, or INT4 where it errs less. What
// says so is the scale's sign, a bit that its code leaves free. [linear.md 7]
#pragma once

#include "base/host_device.h"
#include "format/codec.h"
#include "format/operand.h"
#include "math/round_integer.h"

namespace ng {

/// The second element of a list, an integer. The largest numbers of both stand for the same, so
/// that one scale serves both.
struct OtherElement {
  IntegerGrid grid;
  float to = 1;    ///< its largest over the first's: codes are rounded from fl(y · to)
  float back = 1;  ///< the first's over its own: code q stands for fl(q · back)

  /// What y, a value over its scale, is rounded to, negated. Of such blocks scales are negative,
  /// too: what decodes and multiplies need not know, for two signs change no bit of a product.
  [[nodiscard]] NG_HD float rounded(float y, const Rounder& rounder) const {
    const auto largest = static_cast<float>(grid.largest());
    float u = y * to;
    u = u > largest ? largest : u < -largest ? -largest : u;
    return -value_of(encode_integer(grid, u, rounder));
  }
  /// Of what rounded() gives.
  [[nodiscard]] NG_HD uint32_t code_of(float element) const {
    return encode_integer(grid, -element * to, {});
  }
  [[nodiscard]] NG_HD float value_of(uint32_t code) const {
    return decode_integer(grid, code) * back;
  }
};

/// Of a cast with a list of elements; else nothing is rounded by it.
[[nodiscard]] inline OtherElement other_element(const Operand& cast) {
  if (cast.other == nullptr) return {};
  const float first = max_value(*cast.element), other = max_value(*cast.other);
  return {integer_grid_of(*cast.other), other / first, first / other};
}

/// Whether a block whose elements are decoded by this scale has the second one. Zero has no sign:
/// where nothing but zeros is left the first stays.
[[nodiscard]] NG_HD constexpr bool has_other_element(float scale) { return scale < 0; }

/// How many fits, or elements, a block chooses from.
[[nodiscard]] NG_HD constexpr int choices_of(const Operand& cast) {
  if (cast.other != nullptr) return 2;
  return cast.fit.size() > 0 ? cast.fit.size() : 1;
}

}  // namespace ng
