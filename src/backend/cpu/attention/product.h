// The small matrix products of attention, whose rows sum over a band of k: what a causal mask and
// a window leave.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backend/cpu/attention/tile.h"
#include "tensor/rows.h"

namespace ng::cpu {

/// Which part of the scores a tile holds: query n sees key i iff n + diagonal - window < i <=
/// n + diagonal, and where there are documents iff, besides, i is not before that of its query.
struct Visible {
  int64_t queries;
  int64_t keys;
  int64_t diagonal;
  int64_t window;     ///< window_of(shape)
  int64_t first_key;  ///< of the tile within the sequence
  const float*
      first_keys;  ///< by query: the first key that it sees; null: all see the tile's first

  /// Documents aside.
  [[nodiscard]] bool all() const { return keys - 1 <= diagonal && queries + diagonal <= window; }
  /// The keys that query n sees, documents aside: from first_of(n), before keys_of(n).
  [[nodiscard]] int64_t first_of(int64_t n) const {
    return std::clamp<int64_t>(n + diagonal + 1 - window, 0, keys);
  }
  [[nodiscard]] int64_t keys_of(int64_t n) const {
    return std::clamp<int64_t>(n + diagonal + 1, 0, keys);
  }
  /// Before which query the last lies that sees any of the keys before `end`, documents aside.
  [[nodiscard]] int64_t queries_of(int64_t end) const {
    return std::clamp<int64_t>(end - 1 - diagonal + window, 0, queries);
  }
  /// Whether some query sees less than the tile's first key: the last begins last.
  [[nodiscard]] bool hides() const {
    return first_keys != nullptr && first_keys[queries - 1] > static_cast<float>(first_key);
  }
};

/// f(first key, keys, first query, queries) of the blocks of a tile's scores that some query sees:
/// all of it, else 16 keys at a time; queries are whole vectors of 16.
template <class F>
void for_score_blocks(const Visible& visible, const F& f) {
  constexpr int64_t kLanes = 16;
  const int64_t rows = visible.all() ? visible.keys : kLanes;
  for (int64_t i = 0; i < visible.keys; i += rows) {
    const int64_t n = std::max<int64_t>(0, i - visible.diagonal) / kLanes * kLanes;
    if (n >= visible.queries) return;
    const int64_t end = visible.queries_of(std::min(i + rows, visible.keys));
    if (end > n)
      f(i, std::min(rows, visible.keys - i), n, (end - n + kLanes - 1) / kLanes * kLanes);
  }
}

/// scores (keys, edge) = x (keys, width) · y, y (width, edge) the queries as columns. Vectors of 16
/// queries that see none of 16 keys may be left as they are.
void find_scores(const float* x, const float* y, float* scores, const AttentionTiles& tiles,
                 const Visible& visible);

/// sums (queries, width) += weightsᵀ · x: each query over the keys it sees. As BF16 the weights are
/// rounded already, and subnormals are zeros, read and made. [base/flush.h]
void add_over_keys(const float* weights, const float* x, float* sums, const AttentionTiles& tiles,
                   const Visible& visible, Compute as);

/// sums += weights · x: each key over the queries that see it. sums.cols may be any number.
void add_over_queries(const float* weights, const float* x, const Rows<float>& sums,
                      const AttentionTiles& tiles, const Visible& visible, Compute as);

}  // namespace ng::cpu
