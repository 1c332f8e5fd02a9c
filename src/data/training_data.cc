#include "data/training_data.h"

#include <algorithm>

#include "base/error.h"
#include "math/philox.h"

namespace ng {

void require_sizes(const SequenceRange& range, const BatchSpans& out) {
  NG_CHECK(range.first >= 0 && range.count >= 0 && range.context >= 1, range.first, range.count,
           range.context);
  const size_t size = static_cast<size_t>(range.count * range.context);
  NG_CHECK(out.inputs.size() == size && out.targets.size() == size && out.mask.size() == size, size,
           out.inputs.size(), out.targets.size(), out.mask.size());
}

// The high half of a 64 × 64-bit product.
int64_t draw_place(uint64_t seed, uint32_t step, int64_t sequence, int64_t places) {
  const PhiloxBlock bits = draw({.seed = seed, .tensor = 0, .step = step, .purpose = Purpose::data},
                                static_cast<uint64_t>(sequence));
  const uint64_t r = (static_cast<uint64_t>(bits[1]) << 32) | bits[0];
  __extension__ using Wide = unsigned __int128;
  return static_cast<int64_t>((static_cast<Wide>(r) * static_cast<uint64_t>(places)) >> 64);
}

int64_t count_targets(std::span<const float> mask) {
  return std::count(mask.begin(), mask.end(), 1.0f);
}

}  // namespace ng
