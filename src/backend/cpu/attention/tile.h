// How attention is cut into tiles. Plain data, the same for every instruction set.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "backend/cpu/workspace.h"
#include "backend/operations.h"

namespace ng::cpu {

/// Tile sizes: `edge` queries by `edge` keys, head_dim padded to whole vectors of 16.
struct AttentionTiles {
  int64_t edge = 0;
  int64_t width = 0;
};

/// Floats of `matrices` of edge × width, two of edge × edge and lines.
inline int64_t floats_of_tiles(const AttentionTiles& tiles, int64_t matrices) {
  return tiles.edge * (matrices * tiles.width + 2 * tiles.edge + 8);
}

constexpr int64_t kScratchFloats = kWorkerScratchBytes / sizeof(float);

/// The largest edge in {64, 32, 16} for which `matrices` of edge × width and two of edge × edge fit
/// a worker's scratch. It depends on head_dim alone.
inline AttentionTiles attention_tiles(int head_dim, int64_t matrices) {
  AttentionTiles tiles{.edge = 64, .width = (int64_t{head_dim} + 15) / 16 * 16};
  while (tiles.edge > 16 && floats_of_tiles(tiles, matrices) > kScratchFloats) tiles.edge /= 2;
  NG_CHECK(floats_of_tiles(tiles, matrices) <= kScratchFloats, head_dim, kScratchFloats);
  return tiles;
}

/// Hands out pieces of one worker's scratch.
class TileScratch {
 public:
  explicit TileScratch(std::span<std::byte> memory)
      : next_(reinterpret_cast<float*>(memory.data())),
        left_(static_cast<int64_t>(memory.size() / sizeof(float))) {}
  float* take(int64_t floats) {
    float* piece = next_;
    next_ += floats;
    left_ -= floats;
    return piece;
  }
  /// Floats that can still be taken.
  [[nodiscard]] int64_t left() const { return left_; }

 private:
  float* next_;
  int64_t left_;
};

/// Where the values of one head of one sequence lie in matrices of all heads and sequences.
struct HeadPlace {
  int64_t sequence = 0;
  int64_t head = 0;
  int64_t kv_head = 0;

  template <class Byte>
  BasicView<Byte> queries(const BasicView<Byte>& x, const AttentionShape& s) const {
    return x.part(sequence * s.length, s.length, head * s.head_dim, s.head_dim);
  }
  template <class Byte>
  BasicView<Byte> keys(const BasicView<Byte>& x, const AttentionShape& s) const {
    return x.part(sequence * s.kv_stride, s.kv_length, kv_head * s.head_dim, s.head_dim);
  }
  /// Of the sequence's queries; empty where there are none.
  [[nodiscard]] TokenView first_keys(const TokenView& x, const AttentionShape& s) const {
    if (x.empty()) return {};
    return x.subspan(static_cast<size_t>(sequence * s.length), static_cast<size_t>(s.length));
  }
};

/// Longer than any sequence: such a window hides nothing.
constexpr int64_t kNoWindow = int64_t{1} << 62;

/// Of a shape, as the tiles take it.
inline int64_t window_of(const AttentionShape& s) {
  return s.window == 0 ? kNoWindow : std::min(s.window, kNoWindow);
}

void check_attention(const AttentionShape& s, const ConstView& q, const ConstView& k,
                     const ConstView& v, const TokenView& first_keys);

}  // namespace ng::cpu
