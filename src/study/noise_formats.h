// The least exponent and mantissa bits that weights with noise need, found by trying. [source 002,
// Proposition 3, Table C.1]
#pragma once

#include <string>
#include <vector>

#include "study/noise_weights.h"

namespace ng::study {

/// Noise by its values that are not zero.
struct NoiseValues {
  NoiseLaw law;
  int tau;
  std::vector<float> magnitudes;
};
[[nodiscard]] NoiseValues rounded_normal_values();
[[nodiscard]] NoiseValues uniform4_values();

/// What keeps the noise that is looked for.
enum class WeightsIn : uint8_t {
  same_format,  ///< w is a number of ŵ's format, no block's maximum a power of two (a tie)
  fp32,         ///< w lies between the numbers of ŵ's format
};
/// The least number of mantissa bits, 1 or more, with which ŵ loses none of `noise` on `weights`.
[[nodiscard]] int least_mantissa(const WeightBlocks& weights, std::span<const float> noise, int b_t,
                                 WeightsIn in, Threads threads);

/// The least exponent bits, 2 or more, of a format of `mantissa` bits whose highest binade is that
/// of the block's maximum, with which no weight above the bound of Lemma 2 becomes zero.
[[nodiscard]] int least_exponent_w(const NoiseValues& noise, int b_t, int mantissa);
/// The same of ŵ, the highest binade being the next one: noise on w = 0 and on the largest weight
/// is rounded as by unlimited exponents.
[[nodiscard]] int least_exponent_w_hat(const NoiseValues& noise, int b_t, int mantissa);

/// The formats of the fewest bits that hold so many exponent and mantissa bits, of those in use:
/// "FP8_e4m3, FP8_e3m4". [Table C.1]
[[nodiscard]] std::string datatypes_for(int exponent_bits, int mantissa_bits);

}  // namespace ng::study
