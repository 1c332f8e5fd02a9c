// Up to how many ranks sums of a gradient's codes are exact, so that no order changes a bit.
#pragma once

#include <cstdint>

#include "format/table.h"

namespace ng {

/// Codes that share one scale are integers in units of the format's smallest magnitude: of E4M3 at
/// most 229,376. Sums are exact while ranks · largest fits: in FP32 up to 2^24, in INT32 and INT64
/// up to their largest. [distributed.md §1]
struct ExactRanks {
  double units = 0;                                 ///< largest code / smallest
  int64_t in_fp32 = 0, in_int32 = 0, in_int64 = 0;  ///< 0: not even one rank's codes
};
[[nodiscard]] ExactRanks exact_ranks(const ElementFormat& element);

}  // namespace ng
