#include "format/exact_sum.h"

#include <cmath>

#include "format/codec.h"

namespace ng {

ExactRanks exact_ranks(const ElementFormat& element) {
  const double units = double{max_value(element)} / double{min_subnormal(element)};
  const auto ranks = [&](double largest) {
    return static_cast<int64_t>(std::floor(largest / units));
  };
  return {.units = units,
          .in_fp32 = ranks(0x1p24),
          .in_int32 = ranks(0x1p31 - 1),
          .in_int64 = ranks(0x1p63)};
}

}  // namespace ng
