// What a format is put together of.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <stdexcept>

namespace narrowgauge {

/// floating: sign, exponent, mantissa. power: 2^(code - bias), no zero (E8M0). integer: i · 2^-y.
enum class ElementKind : uint8_t { floating, power, integer };

/// Which codes are not numbers. ieee: exponent all ones is Inf or NaN. fn: no infinities, NaN has
/// all exponent and mantissa bits set. fnuz: no infinities, no -0, NaN is the code of -0. none:
/// every code is a number.
enum class Specials : uint8_t { ieee, fn, fnuz, none };

/// nearest: ties to even. stochastic: up iff floor(f · 2^r) + R >= 2^r, where f in [0, 1) is the
/// place between two neighbours and R uniform in [0, 2^r). eden, of GEMM operands alone: nearest,
/// and E4M3 scales corrected so that a rotated vector is met in the mean.
enum class Rounding : uint8_t { nearest, stochastic, eden };

/// What becomes of values beyond the largest, decided after rounding. saturate: the largest; NaN is
/// kept where the format has one, else it becomes the largest. special: infinity or NaN where the
/// format has them.
enum class Overflow : uint8_t { saturate, special };

/// What becomes of elements below the least normal one. keep: they are elements, as OCP requires.
/// flush: what is rounded to one is zero, as on units that have none.
enum class Subnormals : uint8_t { keep, flush };

/// fp32, pow2: FP32 multipliers, pow2 with one bit set. e8m0, e4m3: one byte.
enum class ScaleKind : uint8_t { none, fp32, pow2, e8m0, e4m3 };

/// How a block's scale follows from its largest magnitude a. e8m0: exponent floor(log2 a) - emax
/// (floor), the least that does not saturate (rceil), ceil(log2 a) - emax (ceil), floor's after
/// rounding a to the element's mantissa (even), the better of floor's and the next (mse). e4m3:
/// rounded to nearest, or up.
enum class ScaleRule : uint8_t { floor, rceil, ceil, even, mse, nearest, up };

/// Which of several scales a block takes: that of the smallest sum of squared errors, sum of
/// errors, or largest error.
enum class Select : uint8_t { mse, mae, max };

/// Element values that the largest magnitude of a block is scaled to: none, which stands for the
/// largest element; one; or several, of which each block takes the best.
class Fits {
 public:
  static constexpr int kMost = 8;

  constexpr Fits() = default;
  constexpr Fits(std::initializer_list<float> values) {
    for (const float value : values) push_back(value);
  }
  /// Throws std::length_error behind kMost.
  constexpr void push_back(float value) {
    if (size_ == kMost) throw std::length_error("more than 8 fits");
    values_[static_cast<size_t>(size_++)] = value;
  }
  [[nodiscard]] constexpr int size() const { return size_; }
  [[nodiscard]] constexpr float operator[](int i) const { return values_[static_cast<size_t>(i)]; }
  [[nodiscard]] constexpr const float* begin() const { return values_.data(); }
  [[nodiscard]] constexpr const float* end() const { return values_.data() + size_; }
  friend bool operator==(const Fits&, const Fits&) = default;

 private:
  std::array<float, kMost> values_{};
  int size_ = 0;
};

/// Values that share a scale: the tensor, a row of the operand, or rows × cols of it; rows of an
/// operand run along the dimension that a product sums over.
struct Block {
  enum class Kind : uint8_t { tensor, row, tile };
  Kind kind = Kind::tensor;
  int rows = 0;  ///< tile only
  int cols = 0;  ///< tile only
  friend bool operator==(const Block&, const Block&) = default;
};

}  // namespace narrowgauge
