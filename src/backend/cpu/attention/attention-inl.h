// What the forward and the backward pass of attention share: packing and one small matrix
// product whose rows sum over a band of k.

// Per-target include guard
#if defined(NG_BACKEND_CPU_ATTENTION_ATTENTION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NG_BACKEND_CPU_ATTENTION_ATTENTION_INL_H_
#undef NG_BACKEND_CPU_ATTENTION_ATTENTION_INL_H_
#else
#define NG_BACKEND_CPU_ATTENTION_ATTENTION_INL_H_
#endif

#include "backend/cpu/attention/tile.h"
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

/// dst (rows, cols) = src (rows, width), rounded to what dst is stored as.
HWY_INLINE void UnpackRows(const float* HWY_RESTRICT src, const View& dst, int64_t width) {
  WithStored(dst, [&](auto in) HWY_ATTR {
    const auto to = in.RowsOf(dst);
    for (int64_t r = 0; r < to.rows; ++r)
      for (int64_t c = 0; c < to.cols; c += kLanes)
        in.Write(Load16(src + r * width + c), to.row(r) + c, to.cols - c);
  });
}

/// The first keys that a tile's queries see, as numbers; null where all see from the first on.
/// Those of the queries that the tile lacks are as the last's. `line`: (edge).
HWY_INLINE const float* FirstKeys(const TokenView& first_keys, int64_t first_row, int64_t queries,
                                  int64_t edge, float* line) {
  if (first_keys.empty()) return nullptr;
  for (int64_t n = 0; n < edge; ++n)
    line[n] =
        static_cast<float>(first_keys[static_cast<size_t>(first_row + std::min(n, queries - 1))]);
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

// ---------------------------------------------------------------- the product

/// C (rows, cols) (+)= A · B with A(i, k) = a[i · a_row + k · a_k], B (k, cols) row by row. Row i
/// sums over k in [max(0, i - start), min(depth, i + end)), ascending: one FMA chain per element,
/// from the value of C or from 0. Terms outside the band are not touched, whatever they hold.
struct Product {
  const float* a;
  int64_t a_row, a_k;
  const float* b;
  int64_t b_row;  ///< multiple of 16, so whole vectors of B can be read
  float* c;
  int64_t c_row;
  int64_t rows, cols, depth;
  int64_t start, end;  ///< depth and above: the band has no such border
  bool add;

  [[nodiscard]] int64_t first(int64_t i) const { return std::clamp<int64_t>(i - start, 0, depth); }
  [[nodiscard]] int64_t last(int64_t i) const { return std::clamp<int64_t>(i + end, 0, depth); }
};

// Rows i ... i + kRows - 1, columns n ... n + 16 · kVectors - 1.
template <int kRows, int kVectors>
HWY_INLINE void ProductBlock(const Product& p, int64_t i, int64_t n) {
  F16 acc[kRows][kVectors];
  HWY_UNROLL(16)
  for (int r = 0; r < kRows; ++r) HWY_UNROLL(4)
  for (int v = 0; v < kVectors; ++v)
    acc[r][v] = p.add ? Load16(p.c + (i + r) * p.c_row + n + v * kLanes, p.cols - n - v * kLanes)
                      : Zero16();
  const float* a = p.a + i * p.a_row;
  const float* b = p.b + n;
  const auto step = [&](int64_t k, auto takes_part) HWY_ATTR {
    F16 vector[kVectors];
    HWY_UNROLL(4)
    for (int v = 0; v < kVectors; ++v) vector[v] = Load16(b + k * p.b_row + v * kLanes);
    HWY_UNROLL(16)
    for (int r = 0; r < kRows; ++r) {
      if (!takes_part(r)) continue;
      const F16 factor = Set16(a[r * p.a_row + k * p.a_k]);
      HWY_UNROLL(4)
      for (int v = 0; v < kVectors; ++v) acc[r][v] = Fma(factor, vector[v], acc[r][v]);
    }
  };
  const int64_t joint_first = p.first(i + kRows - 1);
  const int64_t joint_last = p.last(i);
  for (int64_t k = p.first(i); k < joint_first; ++k)
    step(k, [&](int r) { return k >= p.first(i + r); });
  for (int64_t k = joint_first; k < joint_last; ++k) step(k, [](int) { return true; });
  for (int64_t k = std::max(joint_first, joint_last); k < p.last(i + kRows - 1); ++k)
    step(k, [&](int r) { return k < p.last(i + r); });
  HWY_UNROLL(16)
  for (int r = 0; r < kRows; ++r) HWY_UNROLL(4)
  for (int v = 0; v < kVectors; ++v)
    Store16(acc[r][v], p.c + (i + r) * p.c_row + n + v * kLanes, p.cols - n - v * kLanes);
}

template <int kRows, int kVectors>
HWY_INLINE int64_t ProductRows(const Product& p, int64_t i, int64_t n) {
  for (; i + kRows <= p.rows; i += kRows) ProductBlock<kRows, kVectors>(p, i, n);
  return i;
}

// All rows of one strip of columns; registers hold kRows · kVectors sums.
template <int kRows, int kVectors>
HWY_NOINLINE void ProductStrip(const Product& p, int64_t n) {
  int64_t i = ProductRows<kRows, kVectors>(p, 0, n);
  if constexpr (kRows > 4) i = ProductRows<4, kVectors>(p, i, n);
  if constexpr (kRows > 2) i = ProductRows<2, kVectors>(p, i, n);
  ProductRows<1, kVectors>(p, i, n);
}

HWY_INLINE void Multiply(const Product& p) {
  int64_t n = 0;
#if HWY_TARGET == HWY_AVX3
  for (; n + 3 * kLanes < p.cols; n += 4 * kLanes) ProductStrip<6, 4>(p, n);
  if (p.cols - n > 2 * kLanes) return ProductStrip<8, 3>(p, n);
  if (p.cols - n > kLanes) return ProductStrip<12, 2>(p, n);
  if (p.cols > n) ProductStrip<12, 1>(p, n);
#else
  for (; n < p.cols; n += kLanes) ProductStrip<6, 1>(p, n);
#endif
}

/// Which part of the scores a tile holds: query n sees key i iff i <= n + diagonal, and where there
/// are documents iff, besides, i is not before that of its query.
struct Visible {
  int64_t queries;
  int64_t keys;
  int64_t diagonal;
  int64_t first_key;        ///< of the tile within the sequence
  const float* first_keys;  ///< by query: the first key that it sees; null: no documents

  [[nodiscard]] bool all() const { return keys - 1 <= diagonal; }
  /// Number of keys that query n sees.
  [[nodiscard]] int64_t keys_of(int64_t n) const {
    return std::clamp<int64_t>(n + diagonal + 1, 0, keys);
  }
  /// Whether some query's document begins behind the tile's first key: the last begins last.
  [[nodiscard]] bool hides() const {
    return first_keys != nullptr && first_keys[queries - 1] > static_cast<float>(first_key);
  }
};

/// The documents of 16 queries from n against the keys of a tile.
class Documents16 {
 public:
  HWY_INLINE Documents16(const Visible& visible, int64_t n)
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

/// scores (keys, edge) = x (keys, width) · y, y (width, edge) the queries as columns. Vectors of 16
/// queries that see none of 16 keys are left as they are.
HWY_INLINE void Scores(const float* x, const float* y, float* scores, const AttentionTiles& tiles,
                       const Visible& visible) {
  const int64_t rows = visible.all() ? visible.keys : kLanes;
  for (int64_t i = 0; i < visible.keys; i += rows) {
    const int64_t n = std::max<int64_t>(0, i - visible.diagonal) / kLanes * kLanes;
    if (n >= visible.queries) return;
    Multiply({.a = x + i * tiles.width,
              .a_row = tiles.width,
              .a_k = 1,
              .b = y + n,
              .b_row = tiles.edge,
              .c = scores + i * tiles.edge + n,
              .c_row = tiles.edge,
              .rows = std::min(rows, visible.keys - i),
              .cols = (visible.queries - n + kLanes - 1) / kLanes * kLanes,
              .depth = tiles.width,
              .start = visible.keys,
              .end = tiles.width,
              .add = false});
  }
}

/// sums (queries, width) += weightsᵀ · x: each query over the keys it sees.
HWY_INLINE void AddOverKeys(const float* weights, const float* x, float* sums,
                            const AttentionTiles& tiles, const Visible& visible) {
  Multiply({.a = weights,
            .a_row = 1,
            .a_k = tiles.edge,
            .b = x,
            .b_row = tiles.width,
            .c = sums,
            .c_row = tiles.width,
            .rows = visible.queries,
            .cols = tiles.width,
            .depth = visible.keys,
            .start = visible.queries,
            .end = visible.diagonal + 1,
            .add = true});
}

/// sums += weights · x: each key over the queries that see it. sums.cols may be any number.
HWY_INLINE void AddOverQueries(const float* weights, const float* x, const Rows<float>& sums,
                               const AttentionTiles& tiles, const Visible& visible) {
  Multiply({.a = weights,
            .a_row = tiles.edge,
            .a_k = 1,
            .b = x,
            .b_row = tiles.width,
            .c = sums.data,
            .c_row = sums.stride,
            .rows = visible.keys,
            .cols = sums.cols,
            .depth = visible.queries,
            .start = visible.diagonal,
            .end = visible.queries,
            .add = true});
}

}  // namespace ng::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
