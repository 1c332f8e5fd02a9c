#include "format/dynamic_map.h"

#include <algorithm>
#include <vector>

namespace ng {
namespace {

/// (1/10 + 9(2j + 1)/(20n)) · 10^(i - 6), rounded once: numerator and denominator are exact, and so
/// short that a quotient in FP64 decides the rounding to FP32.
float middle_of(int i, int n, int j) {
  double below = 20.0 * n;
  for (int decade = i; decade < 6; ++decade) below *= 10;
  return static_cast<float>((2.0 * n + 9.0 * (2 * j + 1)) / below);
}

}  // namespace

DynamicMap::DynamicMap(bool is_positive) {
  std::vector<float> values = {0.0f, 1.0f};
  for (int i = 0; i <= 6; ++i) {
    const int n = 1 << (is_positive ? i + 1 : i);
    for (int j = 0; j < n; ++j) {
      const float value = middle_of(i, n, j);
      values.push_back(value);
      if (!is_positive) values.push_back(-value);
    }
  }
  std::sort(values.begin(), values.end());
  std::copy(values.begin(), values.end(), values_.begin());
  for (size_t i = 0; i < middles_.size(); ++i)
    middles_[i] = static_cast<float>((double{values_[i]} + values_[i + 1]) / 2);

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
