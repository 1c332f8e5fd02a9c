#include "backend/ref/update/coded.h"

#include <algorithm>
#include <cmath>

#include "backend/ref/number.h"
#include "format/dynamic_map.h"
#include "format/expansion.h"

namespace ng::ref {
namespace {

struct Magnitudes {
  float most = 0;
  float least = 0;  ///< that is not zero; 0: all are
};

Magnitudes magnitudes_of(std::span<const float> block) {
  Magnitudes of;
  for (const float x : block) {
    const float a = std::fabs(x);
    of.most = std::max(of.most, a);
    if (a != 0 && (of.least == 0 || a < of.least)) of.least = a;
  }
  return of;
}

void store_mapped(const View& y, int64_t scale, std::span<const float> block, std::byte* codes) {
  const DynamicMap& map = DynamicMap::of(y.scales.coding == Coding::positive_dynamic);
  const float amax = magnitudes_of(block).most, decode = amax == 0 ? 1.0f : amax;
  reinterpret_cast<float*>(y.scales.data)[scale] = decode;
  for (size_t i = 0; i < block.size(); ++i)
    codes[i] = static_cast<std::byte>(map.code(block[i], 1.0f / decode));
}

void store_expanded(const View& y, int64_t scale, std::span<const float> block, std::byte* codes) {
  const Magnitudes of = magnitudes_of(block);
  const Expansion expansion = expansion_of(of.most, of.least);
  reinterpret_cast<float*>(y.scales.data)[scale] = expansion.scale;
  y.scales.power[scale] = expansion.power;
  y.scales.center[scale] = expansion.center;
  const ExpandedLimits limits(expansion);
  for (size_t i = 0; i < block.size(); ++i)
    codes[i] = static_cast<std::byte>(limits.code(block[i]));
}

}  // namespace

void store_coded(const View& y, std::span<const float> values) {
  const int64_t width = y.scales.block.cols;
  NG_CHECK(y.element->bits == 8 && y.scales.block.rows == 1, y.element->name);
  for (int64_t r = 0; r < y.rows; ++r)
    for (int64_t c = 0; c < y.cols; c += width) {
      const auto block = values.subspan(static_cast<size_t>(r * y.cols + c),
                                        static_cast<size_t>(std::min(width, y.cols - c)));
      std::byte* const codes = y.data + r * y.stride + c;
      if (y.scales.coding == Coding::expanded)
        store_expanded(y, y.scale_index(r, c), block, codes);
      else
        store_mapped(y, y.scale_index(r, c), block, codes);
    }
}

void store_in_parts(const Stored& y, std::span<const float> values) {
  const View high = y.view, low = low_part(high);
  const ElementCodec codec(*high.element);
  const OverflowRule overflow = overflow_rule(y.cast.overflow);
  const auto put = [&](const View& to, int64_t row, int64_t col, float x) {
    const int bits = to.element->bits;
    const uint32_t code = codec.encode(x, {}, overflow);
    set_code(to.data, (row * to.stride + col) * bits, bits, code);
    return codec.decode(code);
  };
  for (int64_t r = 0; r < high.rows; ++r)
    for (int64_t c = 0; c < high.cols; ++c) {
      const float x = values[static_cast<size_t>(r * high.cols + c)];
      put(low, r, c, x - put(high, r, c, x));
    }
}

}  // namespace ng::ref
