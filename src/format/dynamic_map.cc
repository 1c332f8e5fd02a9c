#include "format/dynamic_map.h"

#include <algorithm>

namespace ng {

DynamicMap::DynamicMap(bool is_positive) {
  for (uint32_t code = 0; code < values_.size(); ++code)
    values_[code] = dynamic_value(is_positive, code);
  for (uint32_t code = 0; code < middles_.size(); ++code)
    middles_[code] = dynamic_middle(is_positive, code);

  const auto below = [&](float y) {
    return static_cast<uint8_t>(std::lower_bound(middles_.begin(), middles_.end(), y) -
                                middles_.begin());
  };
  const auto edge_of = [](uint32_t bin) {
    return std::bit_cast<float>(bin == 0 ? 0u : (bin - 1 + kLeast) << kShift);
  };
  for (uint32_t bin = 0; bin < kBins; ++bin) {
    first_[bin] = below(edge_of(bin));
    // Of the negative ones the far edge is the lowest.
    first_[bin + kBins] = below(bin + 1 < kBins ? -edge_of(bin + 1) : -1.0f);
  }
}

const DynamicMap& DynamicMap::of(bool is_positive) {
  static const DynamicMap maps[] = {DynamicMap(false), DynamicMap(true)};
  return maps[is_positive ? 1 : 0];
}

}  // namespace ng
