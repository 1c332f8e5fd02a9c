// What the forward and the backward pass of attention share besides products: packing, and which
// keys a query sees.

// Per-target include guard
#if defined(NG_BACKEND_CPU_ATTENTION_ATTENTION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NG_BACKEND_CPU_ATTENTION_ATTENTION_INL_H_
#undef NG_BACKEND_CPU_ATTENTION_ATTENTION_INL_H_
#else
#define NG_BACKEND_CPU_ATTENTION_ATTENTION_INL_H_
#endif

#include "backend/cpu/attention/pairs.h"
#include "backend/cpu/simd/elementary-inl.h"
#include "backend/cpu/simd/kernel-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ng::cpu::HWY_NAMESPACE {

/// dst (rows, width) = src, FP32 or BF16; columns from src.cols on are zero.
HWY_INLINE void PackRows(const ConstView& src, float* HWY_RESTRICT dst, int64_t width) {
  WithStored(src, [&](auto in) HWY_ATTR {
    const auto from = in.RowsOf(src);
    for (int64_t r = 0; r < from.rows; ++r)
      for (int64_t c = 0; c < width; c += kLanes)
        Store16(Load16(from.row(r) + c, from.cols - c), dst + r * width + c);
  });
}

/// dst (rows, cols) = src (rows, width), rounded to what dst is stored as. Of sums of BF16 weights
/// -0 becomes +0: what a query does not see may have been added to it as 0.
HWY_INLINE void UnpackRows(const float* HWY_RESTRICT src, const View& dst, int64_t width,
                           Compute as) {
  WithStored(dst, [&](auto in) HWY_ATTR {
    const auto to = in.RowsOf(dst);
    for (int64_t r = 0; r < to.rows; ++r)
      for (int64_t c = 0; c < to.cols; c += kLanes) {
        F16 x = Load16(src + r * width + c);
        if (as == Compute::bf16) x = Add(x, Zero16());
        in.Write(x, to.row(r) + c, to.cols - c);
      }
  });
}

/// The first keys that documents and window leave a tile's queries, as numbers; null where all see
/// from the first on. Those of the queries that the tile lacks are as the last's. `line`: (edge).
HWY_INLINE const float* FirstKeys(const TokenView& of_documents, const AttentionShape& s,
                                  int64_t first_query, int64_t queries, int64_t edge, float* line) {
  if (of_documents.empty() && s.first_key(first_query + queries - 1) == 0) return nullptr;
  for (int64_t n = 0; n < edge; ++n) {
    const int64_t query = first_query + std::min(n, queries - 1);
    const int64_t begin = of_documents.empty() ? 0 : of_documents[static_cast<size_t>(query)];
    line[n] = static_cast<float>(std::max(begin, s.first_key(query)));
  }
  return line;
}

/// The first key of the first tile that any of these queries sees part of.
HWY_INLINE int64_t FirstTile(const float* first_keys, int64_t edge) {
  return first_keys == nullptr ? 0 : static_cast<int64_t>(first_keys[0]) / edge * edge;
}

/// dst (width, edge) = transpose of src (edge, width); both are multiples of 16.
HWY_INLINE void TransposeTile(const float* HWY_RESTRICT src, float* HWY_RESTRICT dst,
                              const AttentionTiles& tiles) {
#if HWY_TARGET == HWY_SCALAR
  for (int64_t c = 0; c < tiles.width; ++c)
    for (int64_t r = 0; r < tiles.edge; ++r) dst[c * tiles.edge + r] = src[r * tiles.width + c];
#else
  const hn::FixedTag<float, 4> d;
  const hn::RepartitionToWide<decltype(d)> dd;
  const auto low = [&](auto a, auto b) HWY_ATTR {
    return hn::InterleaveLower(dd, hn::BitCast(dd, a), hn::BitCast(dd, b));
  };
  const auto high = [&](auto a, auto b) HWY_ATTR {
    return hn::InterleaveUpper(dd, hn::BitCast(dd, a), hn::BitCast(dd, b));
  };
  for (int64_t r = 0; r < tiles.edge; r += 4)
    for (int64_t c = 0; c < tiles.width; c += 4) {
      const float* from = src + r * tiles.width + c;
      float* to = dst + c * tiles.edge + r;
      const auto x0 = hn::LoadU(d, from);
      const auto x1 = hn::LoadU(d, from + tiles.width);
      const auto x2 = hn::LoadU(d, from + 2 * tiles.width);
      const auto x3 = hn::LoadU(d, from + 3 * tiles.width);
      const auto a = hn::InterleaveLower(d, x0, x1);  // 00 10 01 11
      const auto b = hn::InterleaveLower(d, x2, x3);
      const auto e = hn::InterleaveUpper(d, x0, x1);
      const auto f = hn::InterleaveUpper(d, x2, x3);
      hn::StoreU(hn::BitCast(d, low(a, b)), d, to);
      hn::StoreU(hn::BitCast(d, high(a, b)), d, to + tiles.edge);
      hn::StoreU(hn::BitCast(d, low(e, f)), d, to + 2 * tiles.edge);
      hn::StoreU(hn::BitCast(d, high(e, f)), d, to + 3 * tiles.edge);
    }
#endif
}

// ---------------------------------------------------------------- products, by pairs or FP32

HWY_INLINE const float* RowsOf(TileMatrix& x, const AttentionTiles& tiles) {
  if (x.has_rows) return x.rows;
  x.has_rows = true;
  if (x.columns != nullptr)
    std::fill(x.rows + x.source.rows * tiles.width, x.rows + tiles.edge * tiles.width, 0.0f);
  PackRows(x.source, x.rows, tiles.width);
  return x.rows;
}

HWY_INLINE const float* ColumnsOf(TileMatrix& x, const AttentionTiles& tiles) {
  if (!x.has_columns) TransposeTile(RowsOf(x, tiles), x.columns, tiles);
  x.has_columns = true;
  return x.columns;
}

/// weights (keys, edge) as BF16, subnormals as zeros.
HWY_INLINE void RoundWeights(float* weights, const AttentionTiles& tiles, const Visible& visible) {
  for (float* at = weights; at < weights + visible.keys * tiles.edge; at += kLanes) {
    const F16 x = Load16(at);
    Store16(RoundToBf16(Select(Lt(Abs(x), Set16(0x1p-126f)), Zero16(), x)), at);
  }
}

/// find_scores.
HWY_INLINE void FindScores(TileMatrix& keys, TileMatrix& queries, float* scores,
                           const AttentionTiles& tiles, const Visible& visible) {
  if (!find_scores_by_pairs(keys, queries, scores, tiles, visible))
    find_scores(RowsOf(keys, tiles), ColumnsOf(queries, tiles), scores, tiles, visible);
}

/// add_over_keys of weights that are rounded to `as` here.
HWY_INLINE void AddOverKeys(const TileWeights& weights, TileMatrix& x, float* sums,
                            const AttentionTiles& tiles, const Visible& visible, Compute as) {
  if (as == Compute::bf16) {
    if (add_over_keys_by_pairs(weights, x, sums, tiles, visible)) return;
    RoundWeights(weights.values, tiles, visible);
  }
  add_over_keys(weights.values, RowsOf(x, tiles), sums, tiles, visible, as);
}

/// add_over_queries of weights that are rounded to `as` here.
HWY_INLINE void AddOverQueries(const TileWeights& weights, TileMatrix& x, const Rows<float>& sums,
                               const AttentionTiles& tiles, const Visible& visible, Compute as) {
  if (as == Compute::bf16) {
    if (add_over_queries_by_pairs(weights, x, sums, tiles, visible)) return;
    RoundWeights(weights.values, tiles, visible);
  }
  add_over_queries(weights.values, RowsOf(x, tiles), sums, tiles, visible, as);
}

// ---------------------------------------------------------------- who sees what

/// The first keys that 16 queries from n see, by documents and window, against the keys of a tile.
class FirstKeys16 {
 public:
  HWY_INLINE FirstKeys16(const Visible& visible, int64_t n)
      : hides_(visible.hides()),
        first_(hides_ ? Sub(Load16(visible.first_keys + n),
                            Set16(static_cast<float>(visible.first_key)))
                      : Zero16()) {}
  /// x of the queries that see key i, else `hidden`.
  HWY_INLINE F16 Seen(F16 x, int64_t i, F16 hidden) const {
    return hides_ ? Select(Ge(Set16(static_cast<float>(i)), first_), x, hidden) : x;
  }
  [[nodiscard]] HWY_INLINE bool hides() const { return hides_; }

 private:
  bool hides_;
  F16 first_;
};

}  // namespace ng::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
