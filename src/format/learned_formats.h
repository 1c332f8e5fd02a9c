// Which number format holds a weight that noise of a bit-width has trained. [source 002, Table C.1]
#pragma once

#include <span>
#include <string_view>

#include "format/operand.h"

namespace ng {

/// A format of Table C.1.
struct LearnedFormat {
  std::string_view name;  ///< "mxfp6_e3m2"
  Operand cast;           ///< of a whole weight, as `weights.storage` says it

  /// Of an element.
  [[nodiscard]] int bits() const { return cast.element->bits; }
};

/// Those of the table, the narrowest first: FP6 E3M2, FP8 E4M3, BF16, FP16, FP32. The first two
/// have a power of two for each 32 values of a row, which saturates nothing ("rceil"); FP16 has one
/// for the tensor, so that its five bits of exponent lie where the weights are.
[[nodiscard]] std::span<const LearnedFormat> learned_formats();

/// The narrowest of at least `least_bits` whose exponent and mantissa suffice for ŵ at b_t bits
/// (math/noise_precision.h); FP32 beyond. The table begins at 3 bits: what is below gets what those
/// get. It is that of rounded normal noise, by which DiffQ's and NIPQ's bit-widths are read too.
/// b_t is finite.
[[nodiscard]] const LearnedFormat& format_for_bits(double b_t, int least_bits = 0);

}  // namespace ng
