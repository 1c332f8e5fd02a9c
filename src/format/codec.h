// Encode and decode one value of any element format, and the ranges that follow from its row.
// [formats.md §1, §2, §6]
#pragma once

#include <string_view>
#include <vector>

#include "format/table.h"
#include "math/round.h"
#include "math/round_integer.h"

namespace ng {

using narrowgauge::Subnormals;

/// The numbers of a floating format's encoder. Not for power and integer formats.
[[nodiscard]] FloatGrid grid_of(const ElementFormat& format);

/// The same of an integer format.
[[nodiscard]] IntegerGrid integer_grid_of(const ElementFormat& format);

/// Largest finite value that is emitted: 448 for e4m3, 127/64 for mxint8, 2^127 for e8m0.
[[nodiscard]] float max_value(const ElementFormat& format);
/// Exponent of max_value: formats.md's emax.
[[nodiscard]] int emax(const ElementFormat& format);
/// Smallest normal magnitude; 2^-127 for e8m0, one step for integers, infinity where every number
/// is subnormal (IEEE-like formats of one exponent bit).
[[nodiscard]] float min_normal(const ElementFormat& format);
/// Smallest magnitude above zero; 2^-127 for e8m0, one step for integers.
[[nodiscard]] float min_subnormal(const ElementFormat& format);

/// Whether some magnitudes are below the least normal one, which there is.
[[nodiscard]] bool has_subnormals(const ElementFormat& format);

/// The magnitude's code below which a cast that flushes subnormals has zeros; 0: it has none.
[[nodiscard]] uint32_t least_kept_code(const ElementFormat& format, Subnormals subnormals);

/// Largest code + 1: 2^bits, or 128 for ue4m3 whose eighth bit is always 0.
[[nodiscard]] uint64_t code_count(const ElementFormat& format);
/// Value of a code, exact; NaN for the codes that are none.
[[nodiscard]] float decode(const ElementFormat& format, uint32_t code);
/// Values of all codes of a format of at most 16 bits.
[[nodiscard]] std::vector<float> decode_table(const ElementFormat& format);

/// Code of x. [formats.md §2]
/// floating: §2.1 and §2.2; unsigned formats encode |x|, negative numbers as 0.
/// power (e8m0): the rounding acts on the linear value, so a tie goes up; what is no positive
///   number gives NaN, and so does overflow unless it saturates. Scales use formats.md §3.2
///   instead.
/// integer: i = round(x·2^m), within ±(2^(bits-1) - 1), or 0 ... 2^bits - 1 when unsigned; always
///   saturates, NaN becomes the largest. sr is floor(x·2^m + R·2^-r) for m = 0 (int8, int4)
///   [§6] and acts on the magnitude for mxint8 [§2.3].
[[nodiscard]] uint32_t encode(const ElementFormat& format, float x, const Rounder& rounder = {},
                              OverflowRule overflow = OverflowRule::saturate);

/// Whether `code` is a zero of the format.
[[nodiscard]] bool is_zero_code(const ElementFormat& format, uint32_t code);

/// encode() and decode() for many values of one format, which must outlive this: what they derive
/// from its row is derived once.
class ElementCodec {
 public:
  explicit ElementCodec(const ElementFormat& format, Subnormals subnormals = Subnormals::keep);

  [[nodiscard]] const ElementFormat& format() const { return *format_; }
  /// As the functions of the same names, but for subnormals where those are flushed.
  [[nodiscard]] uint32_t encode(float x, const Rounder& rounder = {},
                                OverflowRule overflow = OverflowRule::saturate) const;
  [[nodiscard]] float decode(uint32_t code) const;
  [[nodiscard]] bool is_zero_code(uint32_t code) const { return decode(code) == 0.0f; }

 private:
  const ElementFormat* format_;
  FloatGrid grid_;        // floating formats only
  IntegerGrid integers_;  // integer formats only
  uint64_t code_count_;
  uint32_t least_code_ = 0;  // lesser magnitudes are flushed
};

}  // namespace ng
