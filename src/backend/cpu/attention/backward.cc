// One item owns a (sequence, kv head): its heads, then their tiles of queries, then the tiles of
// keys these see, all ascending, so every sum of dk and dv has one order. Per tile, with the scores
// S recomputed and D = rowsum(dout ∘ out):
//   P = exp(S · scale - lse),  dS = P ∘ (V · doutᵀ - D) · scale
//   dv += P · dout,  dk += dS · q,  dq += dSᵀ · k          [Dao et al. 2022, algorithm 4]
// As BF16 probabilities P and dS are rounded to nearest even where they enter these products.
//
// The sums are FP32. Where dk and dv are stored so, they lie there. BF16 has no room for them: they
// lie in the worker's scratch, for a band of keys at a time, and are rounded when all queries have
// passed. The first band's pass also does dq, over all keys; each further one repeats the scores
// and slopes of the tiles in its band. So a context of any length needs no more scratch, each sum
// keeps its one order, and only keys beyond the first band (7,600 of head_dim 64, 3,500 of 128)
// cost more: 7 products instead of 5.
#include "backend/cpu/attention/attention.h"

#include <cmath>

#include "backend/cpu/types.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/attention/backward.cc"
#include <hwy/foreach_target.h>

#include "backend/cpu/attention/attention-inl.h"

#ifndef NG_BACKEND_CPU_ATTENTION_BACKWARD_ONCE_
#define NG_BACKEND_CPU_ATTENTION_BACKWARD_ONCE_
namespace ng::cpu {
/// Keys whose dk and dv one pass over the queries sums up.
struct KeyBand {
  int64_t first;
  int64_t end;
  Rows<float> dk, dv;  // (end - first, head_dim)

  [[nodiscard]] bool holds(int64_t key) const { return key >= first && key < end; }
};
}  // namespace ng::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace ng::cpu::HWY_NAMESPACE {

/// One worker's tiles. Scores become P, slopes dS.
struct BackwardTiles {
  TileMatrix q, dout, k, v;
  float* dq;
  TileWeights scores, slopes;
  float *lse, *mean, *first_keys;
};

HWY_INLINE BackwardTiles TakeBackwardTiles(TakeTiles take) {
  return {.q = take.queries(),
          .dout = take.queries(),
          .k = take.keys(),
          .v = take.keys(),
          .dq = take.matrix(),
          .scores = take.weights(),
          .slopes = take.weights(),
          .lse = take.line(),
          .mean = take.line(),
          .first_keys = take.line()};
}

// D of one query: Σ dout · out over the columns of its head.
template <class Stored>
HWY_INLINE float MeanSlope(const Stored* dout, const Stored* out, int64_t cols) {
  F16 sum = Zero16();
  for (int64_t c = 0; c < cols; c += kLanes)
    sum = Fma(Load16(dout + c, cols - c), Load16(out + c, cols - c), sum);
  return FoldLanes(sum);
}

// Everything about the queries of one tile that does not depend on the keys.
HWY_INLINE void LoadQueries(const AttentionBackward& a, const AttentionTiles& tiles,
                            const HeadPlace& place, int64_t first_query, int64_t queries,
                            BackwardTiles& t) {
  const auto [edge, width] = tiles;
  std::fill_n(t.dq, edge * width, 0.0f);
  std::fill_n(t.lse, edge, 0.0f);
  std::fill_n(t.mean, edge, 0.0f);
  const ConstView dout = place.queries(a.dout, a.shape).slice(first_query, queries);
  t.q.load(place.queries(a.q, a.shape).slice(first_query, queries));
  t.dout.load(dout);
  const ConstView out = place.queries(a.out, a.shape).slice(first_query, queries);
  const Rows<const float> lse = a.lse.as<float>();
  WithStored(out, [&](auto in) HWY_ATTR {
    const auto rows = in.RowsOf(out), slopes = in.RowsOf(dout);
    for (int64_t n = 0; n < rows.rows; ++n) {
      t.lse[n] = lse.row(place.sequence * a.shape.length + first_query + n)[place.head];
      t.mean[n] = MeanSlope(slopes.row(n), rows.row(n), rows.cols);
    }
  });
}

// scores -> P, slopes (dP) -> dS, for 16 queries from n and the keys that any of them sees.
HWY_INLINE void Slopes16(const BackwardTiles& t, int64_t n, float scale,
                         const AttentionTiles& tiles, const Visible& visible) {
  const F16 scale16 = Set16(scale);
  const F16 minus_lse = Neg(Load16(t.lse + n));
  const F16 mean = Load16(t.mean + n);
  const FirstKeys16 first_keys(visible, n);
  for (int64_t i = visible.first_of(n); i < visible.keys_of(n + kLanes - 1); ++i) {
    float* score = t.scores.values + i * tiles.edge + n;
    float* slope = t.slopes.values + i * tiles.edge + n;
    const F16 p = first_keys.Seen(Exp(Fma(Load16(score), scale16, minus_lse)), i, Zero16());
    Store16(p, score);
    Store16(Mul(Mul(p, Sub(Load16(slope), mean)), scale16), slope);
  }
}

// One tile of queries: dk and dv of the keys in the band that it sees; with the first band dq.
HWY_INLINE void BackwardQueries(const AttentionBackward& a, const AttentionTiles& tiles,
                                const HeadPlace& place, int64_t first_query, const KeyBand& band,
                                BackwardTiles& t) {
  const auto [edge, width] = tiles;
  const Compute as = a.probabilities;
  const float scale = static_cast<float>(1 / std::sqrt(static_cast<double>(a.shape.head_dim)));
  const int64_t queries = std::min(edge, a.shape.length - first_query);
  const int64_t position = a.shape.first + first_query;
  const int64_t key_end = position + queries;
  const bool with_dq = band.first == 0;
  const float* const first_keys = FirstKeys(place.first_keys(a.first_keys, a.shape), a.shape,
                                            first_query, queries, edge, t.first_keys);
  const int64_t first = std::max(band.first, FirstTile(first_keys, edge));
  const int64_t last = with_dq ? key_end : std::min(key_end, band.end);
  if (first >= last) return;
  LoadQueries(a, tiles, place, first_query, queries, t);
  const ConstView k = place.keys(a.k, a.shape), v = place.keys(a.v, a.shape);
  for (int64_t first_key = first; first_key < last; first_key += edge) {
    const Visible visible{.queries = queries,
                          .keys = std::min(edge, key_end - first_key),
                          .diagonal = position - first_key,
                          .window = window_of(a.shape),
                          .first_key = first_key,
                          .first_keys = first_keys};
    t.k.load(k.slice(first_key, visible.keys));
    t.v.load(v.slice(first_key, visible.keys));
    FindScores(t.k, t.q, t.scores.values, tiles, visible);
    FindScores(t.v, t.dout, t.slopes.values, tiles, visible);
    for (int64_t n = 0; n < queries; n += kLanes) Slopes16(t, n, scale, tiles, visible);
    if (band.holds(first_key)) {
      const int64_t row = first_key - band.first;
      AddOverQueries(t.scores, t.dout, band.dv.slice(row, visible.keys), tiles, visible, as);
      AddOverQueries(t.slopes, t.q, band.dk.slice(row, visible.keys), tiles, visible, as);
    }
    if (with_dq) AddOverKeys(t.slopes, t.k, t.dq, tiles, visible, as);
  }
  if (with_dq)
    UnpackRows(t.dq, place.queries(a.dq, a.shape).slice(first_query, queries), width, as);
}

HWY_INLINE void Clear(const Rows<float>& x) {
  for (int64_t r = 0; r < x.rows; ++r) std::fill_n(x.row(r), x.cols, 0.0f);
}

// As UnpackRows does it.
void AddZero(const Rows<float>& x) {
  for (int64_t r = 0; r < x.rows; ++r)
    for (int64_t c = 0; c < x.cols; ++c) x.row(r)[c] += 0.0f;
}

void BackwardHeads(const AttentionBackward& a, AttentionTiles cut, bool pairs, int64_t item,
                   std::span<std::byte> memory) {
  const AttentionShape& shape = a.shape;
  const bool in_place = a.dk.is(fp32_format());
  TileScratch scratch(memory);
  BackwardTiles tiles = TakeBackwardTiles({cut, pairs, scratch});
  const int64_t band_keys =
      in_place ? shape.kv_length : scratch.left() / (2 * cut.width) / cut.edge * cut.edge;
  float* sums = in_place ? nullptr : scratch.take(2 * band_keys * cut.width);  // whole tiles
  const int64_t group = shape.heads / shape.kv_heads;
  HeadPlace place{.sequence = item / shape.kv_heads, .head = 0, .kv_head = item % shape.kv_heads};
  const View dk = place.keys(a.dk, shape), dv = place.keys(a.dv, shape);
  for (int64_t first = 0; first < shape.kv_length; first += band_keys) {
    const int64_t keys = std::min(band_keys, shape.kv_length - first);
    KeyBand band{first, first + keys, {}, {}};
    if (in_place) {
      band.dk = dk.as<float>();
      band.dv = dv.as<float>();
    } else {
      band.dk = {sums, keys, shape.head_dim, cut.width};
      band.dv = {sums + band_keys * cut.width, keys, shape.head_dim, cut.width};
    }
    Clear(band.dk);
    Clear(band.dv);
    for (int64_t g = 0; g < group; ++g) {
      place.head = place.kv_head * group + g;
      for (int64_t n = 0; n < shape.length; n += cut.edge)
        BackwardQueries(a, cut, place, n, band, tiles);
    }
    if (in_place) {
      if (a.probabilities == Compute::bf16) AddZero(band.dk), AddZero(band.dv);
      continue;
    }
    UnpackRows(band.dk.data, dk.slice(first, keys), cut.width, a.probabilities);
    UnpackRows(band.dv.data, dv.slice(first, keys), cut.width, a.probabilities);
  }
}

}  // namespace ng::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ng::cpu {

HWY_EXPORT(BackwardHeads);

// q and dout twice, dq, k and v; where dk and dv are not summed in place, a tile of each at least.
constexpr int64_t kBackwardMatrices = 7;
constexpr int64_t kBackwardSums = 2;

void perform(Workspace& workspace, const AttentionBackward& op) {
  const AttentionShape& shape = op.shape;
  require_one_type(op.kName, {op.dq, op.dk, op.dv, op.dout, op.out, op.q, op.k, op.v});
  require_fp32(op.kName, {op.lse});
  check_attention(shape, op.q, op.k, op.v, op.first_keys);
  NG_CHECK(same_shape(op.dq, op.q) && same_shape(op.dout, op.q) && same_shape(op.out, op.q),
           op.dq.rows, op.dq.cols, op.dout.rows, op.dout.cols, op.out.rows, op.out.cols);
  NG_CHECK(same_shape(op.dk, op.k) && same_shape(op.dv, op.v), op.dk.rows, op.dk.cols, op.dv.rows,
           op.dv.cols);
  NG_CHECK(op.lse.rows == op.q.rows && op.lse.cols == shape.heads, op.lse.rows, op.lse.cols,
           shape.heads);
  const int64_t sums = op.dk.is(fp32_format()) ? 0 : kBackwardSums;
  const AttentionTiles tiles = attention_tiles(shape.head_dim, kBackwardMatrices + sums);
  const bool pairs = takes_pairs(op.q, tiles, floats_of_tiles(tiles, kBackwardMatrices + sums));
  parallel_for(
      workspace.threads(), shape.sequences * shape.kv_heads, [&](int64_t item, int worker) {
        HWY_DYNAMIC_DISPATCH(BackwardHeads)(op, tiles, pairs, item, workspace.worker(worker));
      });
}

}  // namespace ng::cpu
#endif
