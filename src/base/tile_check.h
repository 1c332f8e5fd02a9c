// Tries tile operations against their definition.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "base/tiles.h"

namespace ng {

/// The words of a product's tiles: random patterns of a kind.
class TileCase {
 public:
  /// Pairs of BF16 (`depth` words along K), or words of int8.
  static TileCase bf16(uint64_t seed, int depth);
  static TileCase int8(uint64_t seed, int depth);

  /// c + a · b, row by row.
  template <class Tiles>
  [[nodiscard]] std::vector<uint32_t> sums(Tiles& tiles) const {
    TileForm forms[kTiles];
    forms[1].bytes = static_cast<uint16_t>(4 * depth_);
    forms[2].rows = static_cast<uint8_t>(depth_);
    tiles.configure(forms);
    tiles.template load<0>(c_.data(), kStride);
    tiles.template load<1>(a_.data(), kStride);
    tiles.template load<2>(b_.data(), kStride);
    if (is_bf16_)
      tiles.template add_bf16<0, 1, 2>();
    else
      tiles.template add_int8<0, 1, 2>();
    std::vector<uint32_t> sums(kTileRows * kTileWords);
    tiles.template store<0>(sums.data(), kStride);
    tiles.release();
    return sums;
  }
  /// Bit for bit, but that any NaN is as good as another.
  [[nodiscard]] bool are_same(const std::vector<uint32_t>& x, const std::vector<uint32_t>& y) const;

 private:
  static constexpr int64_t kStride = 4 * kTileWords;
  int depth_ = kTileWords;
  bool is_bf16_ = false;
  std::vector<uint32_t> a_, b_, c_;
};

/// Whether `tiles` give the bits of ScalarTiles: ties, cancellation, subnormals, the edge below
/// 2^-126, infinities and NaN among them. Takes some milliseconds.
template <class Tiles>
[[nodiscard]] bool sums_as_defined(Tiles& tiles) {
  constexpr uint64_t kCases = 24;
  ScalarTiles definition;
  for (uint64_t seed = 0; seed < kCases; ++seed)
    for (const int depth : {kTileWords, kTileWords / 2})
      for (const TileCase& each : {TileCase::bf16(seed, depth), TileCase::int8(seed, depth)})
        if (!each.are_same(each.sums(tiles), each.sums(definition))) return false;
  return true;
}

}  // namespace ng
