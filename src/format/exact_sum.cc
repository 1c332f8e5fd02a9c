#include "format/exact_sum.h"

#include <bit>
#include <cmath>

#include "format/codec.h"

namespace ng {
namespace {

constexpr int kBitsOfFp64 = 53;

}  // namespace

ExactRanks exact_ranks(const ElementFormat& element) {
  const double units = double{max_value(element)} / double{min_subnormal(element)};
  const auto ranks = [&](double largest) {
    return static_cast<int64_t>(std::floor(largest / units));
  };
  return {.units = units, .in_fp32 = ranks(0x1p24), .in_fp64 = ranks(0x1p53)};
}

int exact_exponents(int bits, int64_t ranks) {
  return kBitsOfFp64 - bits - std::bit_width(static_cast<uint64_t>(ranks - 1));
}

}  // namespace ng
