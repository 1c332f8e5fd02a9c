// Up to how many ranks sums of a gradient are exact, so that no order changes a bit.
#pragma once

#include <cstdint>

#include "format/table.h"

namespace ng {

/// Codes that share one scale are integers in units of the format's smallest magnitude: of E4M3 at
/// most 229,376. Sums are exact while ranks · largest fits a significand: 2^24 of FP32, 2^53 of
/// FP64. [distributed.md §1]
struct ExactRanks {
  double units = 0;                  ///< largest code / smallest
  int64_t in_fp32 = 0, in_fp64 = 0;  ///< 0: not even one rank's codes
};
[[nodiscard]] ExactRanks exact_ranks(const ElementFormat& element);

/// Values of `bits` significant bits that share no unit: FP64 adds those of so many ranks exactly,
/// in any order, while their exponents are at most so far apart. |x| < 2^(e_max + 1), so that sums
/// are less than ranks · 2^(e_max - e_min + bits) units of 2^(e_min + 1 - bits), and all of these
/// up to 2^53 are FP64's. Below 0: not even of one exponent.
[[nodiscard]] int exact_exponents(int bits, int64_t ranks);

}  // namespace ng
