#include "base/tile_check.h"

#include <algorithm>
#include <iterator>

namespace ng {
namespace {

constexpr size_t kWords = size_t{kTileRows} * kTileWords;

/// splitmix64
class Draws {
 public:
  explicit Draws(uint64_t seed) : state_(seed) {}
  uint32_t next() {
    uint64_t z = state_ += 0x9E3779B97F4A7C15;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return static_cast<uint32_t>((z ^ (z >> 31)) >> 32);
  }

 private:
  uint64_t state_;
};

// A BF16 pattern whose magnitude is 1.xxx · 2^e, e in [low, low + range).
uint32_t pattern(Draws& draws, int low, uint32_t range) {
  const uint32_t exponent = static_cast<uint32_t>(low + 127) + draws.next() % range;
  return (draws.next() & 0x8000u) | exponent << 7 | (draws.next() & 0x7Fu);
}

// By the case: ordinary values; of few bits, which cancel; around the square root of 2^-126, whose
// sums are subnormal or just not; subnormal; near overflow; and any pattern at all.
uint32_t element(Draws& draws, uint64_t kind) {
  constexpr uint32_t kSpecial[] = {0, 0x8000, 0x3F80, 0x7F80, 0xFF80, 0x7FC0, 1};
  if (kind >= 4 && draws.next() % 64 == 0) return kSpecial[draws.next() % std::size(kSpecial)];
  switch (kind) {
    case 0:
      return pattern(draws, -4, 8);
    case 1:
      return pattern(draws, -1, 2) & 0xFFE0u;
    case 2:
      return pattern(draws, -67, 8);
    case 3:
      return draws.next() % 4 == 0 ? draws.next() & 0x807Fu : pattern(draws, -20, 60);
    case 4:
      return pattern(draws, 58, 8);
    default:
      return draws.next() & 0xFFFFu;
  }
}

}  // namespace

TileCase TileCase::bf16(uint64_t seed, int depth) {
  Draws draws(seed);
  TileCase made;
  made.depth_ = depth;
  made.is_bf16_ = true;
  const auto fill = [&](std::vector<uint32_t>& words) {
    words.resize(kWords);
    for (uint32_t& word : words) word = element(draws, seed % 6) << 16 | element(draws, seed % 6);
  };
  fill(made.a_);
  fill(made.b_);
  made.c_.resize(kWords);
  for (uint32_t& word : made.c_) {
    const uint32_t kind = draws.next() % 3;
    const int low = seed % 6 == 2 ? -128 : -12;
    word = kind == 0 ? 0 : (pattern(draws, low + 1, 12) << 16 | (draws.next() & 0xFFFFu));
    if (kind == 1) word &= 0xFF800000u;
  }
  return made;
}

TileCase TileCase::int8(uint64_t seed, int depth) {
  Draws draws(~seed);
  TileCase made;
  made.depth_ = depth;
  for (std::vector<uint32_t>* words : {&made.a_, &made.b_, &made.c_}) {
    words->resize(kWords);
    std::generate(words->begin(), words->end(), [&] { return draws.next(); });
  }
  return made;
}

bool TileCase::are_same(const std::vector<uint32_t>& x, const std::vector<uint32_t>& y) const {
  const auto is_nan = [](uint32_t bits) { return (bits & 0x7FFFFFFFu) > 0x7F800000u; };
  return std::equal(x.begin(), x.end(), y.begin(), y.end(), [&](uint32_t a, uint32_t b) {
    return a == b || (is_bf16_ && is_nan(a) && is_nan(b));
  });
}

}  // namespace ng
