// How attention is cut into tiles. Plain data, the same for every instruction set.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "backend/backend.h"
#include "backend/cpu/workspace.h"

namespace ng::cpu {

/// Tile sizes: `edge` queries by `edge` keys, head_dim padded to whole vectors of 16.
struct AttentionTiles {
  int64_t edge = 0;
  int64_t width = 0;
};

/// The largest edge in {64, 32, 16} for which `matrices` of edge × width and two of edge × edge fit
/// a worker's scratch. It depends on head_dim alone.
inline AttentionTiles attention_tiles(int head_dim, int64_t matrices) {
  constexpr int64_t kFloats = kWorkerScratchBytes / sizeof(float);
  const int64_t width = (int64_t{head_dim} + 15) / 16 * 16;
  int64_t edge = 64;
  const auto need = [&] { return edge * (matrices * width + 2 * edge + 8); };
  while (edge > 16 && need() > kFloats) edge /= 2;
  NG_CHECK(need() <= kFloats, head_dim, kFloats);
  return {edge, width};
}

/// Hands out pieces of one worker's scratch.
class TileScratch {
 public:
  explicit TileScratch(std::span<std::byte> memory)
      : next_(reinterpret_cast<float*>(memory.data())) {}
  float* take(int64_t floats) {
    float* piece = next_;
    next_ += floats;
    return piece;
  }

 private:
  float* next_;
};

/// Where the values of one head of one sequence lie in matrices of all heads and sequences.
struct HeadPlace {
  int64_t sequence = 0;
  int64_t head = 0;
  int64_t kv_head = 0;

  template <class Value>
  BasicView<Value> queries(BasicView<Value> x, const AttentionShape& s) const {
    return {x.data + sequence * s.length * x.stride + head * s.head_dim, s.length, s.head_dim,
            x.stride};
  }
  template <class Value>
  BasicView<Value> keys(BasicView<Value> x, const AttentionShape& s) const {
    return {x.data + sequence * s.kv_stride * x.stride + kv_head * s.head_dim, s.kv_length,
            s.head_dim, x.stride};
  }
};

void check_attention(const AttentionShape& s, ConstView q, ConstView k, ConstView v);

}  // namespace ng::cpu
