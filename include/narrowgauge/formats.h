// Number formats: elements (FP8, FP6, FP4, any eXmY, integers, powers of two), and formats of whole
// matrices, which are an element with its scales (MXFP4, NVFP4, FP8 tensors ...).
// Sources: OCP Microscaling Formats (MX) v1.0, OCP OFP8 v1.0; docs/formats.md states every rule.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "narrowgauge/export.h"
#include "narrowgauge/types.h"

namespace ng {
struct ElementFormat;
}

namespace narrowgauge {

/// A rounding of one value and its random draw: R = `random`, uniform in [0, 2^random_bits).
struct ValueRounding {
  Rounding mode = Rounding::nearest;
  int random_bits = 16;  ///< 8, 16 or 32; stochastic only
  uint32_t random = 0;   ///< stochastic only
};

/// The format of single numbers; a small handle, cheap to copy.
/// value = (-1)^S · 2^(E - bias) · (1 + m / 2^y), subnormals (-1)^S · 2^(1 - bias) · m / 2^y.
class NARROWGAUGE_API Element {
 public:
  /// By name: a row of docs/formats.md ("e4m3", "float8_e4m3fn", "mxint8", "e8m0" ...), or any
  /// eXmY, eXmYfn or eXmYfnuz with X in 1 ... 8 and 1 + X + Y <= 16. Throws Error naming the
  /// nearest known name.
  explicit Element(std::string_view name);

  [[nodiscard]] std::string_view name() const noexcept;        ///< as in ml_dtypes, unique
  [[nodiscard]] std::string_view short_name() const noexcept;  ///< "e4m3"
  [[nodiscard]] ElementKind kind() const noexcept;
  [[nodiscard]] Specials specials() const noexcept;
  [[nodiscard]] bool is_signed() const noexcept;
  [[nodiscard]] int bits() const noexcept;           ///< of a code, sign included
  [[nodiscard]] int exponent_bits() const noexcept;  ///< x
  [[nodiscard]] int mantissa_bits() const noexcept;  ///< y
  [[nodiscard]] int bias() const noexcept;

  [[nodiscard]] float max() const;         ///< largest finite value that is emitted: 448 for e4m3
  [[nodiscard]] int max_exponent() const;  ///< floor(log2(max))
  [[nodiscard]] float min_normal() const;  ///< infinity where there is none
  [[nodiscard]] float min_subnormal() const;  ///< smallest magnitude above zero
  [[nodiscard]] uint64_t code_count() const;  ///< codes are 0 ... code_count - 1

  /// Value of a code, exact. Throws Error for a code that is none.
  [[nodiscard]] float decode(uint32_t code) const;
  /// Values of all codes of an element of at most 16 bits.
  [[nodiscard]] std::vector<float> values() const;
  /// Code of x, rounded once. Unsigned formats take negative numbers as 0; integers always
  /// saturate; e8m0 takes what is no positive number as NaN.
  [[nodiscard]] uint32_t encode(float x, const ValueRounding& rounding = {},
                                Overflow overflow = Overflow::saturate) const;

  friend bool operator==(const Element& a, const Element& b) noexcept {
    return a.format_ == b.format_;
  }

 private:
  friend struct ElementAccess;
  explicit Element(const ng::ElementFormat* format) noexcept : format_(format) {}
  const ng::ElementFormat* format_;
};

/// Short names of the table's elements. Any eXmY is an element too.
[[nodiscard]] NARROWGAUGE_API std::vector<std::string_view> element_names();

/// How a matrix is written as narrow numbers: value = decode(code) · scale of its block · scale of
/// the tensor.
struct Format {
  Element element;
  Block block = {};
  ScaleKind scale = ScaleKind::none;
  ScaleKind tensor_scale = ScaleKind::none;  ///< second level, above e4m3: none, fp32 or pow2
  ScaleRule scale_rule = ScaleRule::floor;   ///< e8m0 and e4m3 only
  Fits fit = {};                             ///< fp32, pow2 and e4m3 only
  Select select = Select::mse;               ///< of several fits only
  float scale_max = 448;                     ///< largest e4m3 scale that the tensor's aims at
  Rounding rounding = Rounding::nearest;
  int random_bits = 16;  ///< 8, 16 or 32; stochastic only
  Overflow overflow = Overflow::saturate;
  Subnormals subnormals = Subnormals::keep;  ///< floating elements of at most 8 bits only
  float prescale = 1.0f;  ///< multiplies values after their scale was chosen; 2^-16 ... 2^16

  friend bool operator==(const Format&, const Format&) = default;
};

/// By name: "mxfp4", "mxfp8_e4m3", "nvfp4", "fp8_e4m3", "int8" ..., "uint8" and "uint4", affine
/// with a zero point for each row; or else an element's, without scale. Fields may be changed
/// afterwards. Throws Error naming the nearest known name.
[[nodiscard]] NARROWGAUGE_API Format format(std::string_view name);

/// Names of the formats with scales, and of the plain ones beside them.
[[nodiscard]] NARROWGAUGE_API std::vector<std::string_view> format_names();

/// Throws Error where the fields do not go together or the element has more than 16 bits.
NARROWGAUGE_API void check(const Format& format);

/// Bits per value, scales of blocks included, those of tensors and rows not: 4.25 for mxfp4.
[[nodiscard]] NARROWGAUGE_API double bits_per_value(const Format& format);

/// One line: the nearest name and what differs from it, "mxfp4 stochastic prescale 0.75".
[[nodiscard]] NARROWGAUGE_API std::string describe(const Format& format);

}  // namespace narrowgauge
