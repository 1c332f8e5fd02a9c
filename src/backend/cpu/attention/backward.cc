// One item owns a (sequence, kv head): its heads, then their tiles of queries, then the tiles of
// keys these see, all ascending, so every sum of dk and dv has one order. Per tile, with the scores
// S recomputed and D = rowsum(dout ∘ out):
//   P = exp(S · scale - lse),  dS = P ∘ (V · doutᵀ - D) · scale
//   dv += P · dout,  dk += dS · q,  dq += dSᵀ · k          [Dao et al. 2022, algorithm 4]
#include "backend/cpu/attention/attention.h"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/attention/backward.cc"
#include <hwy/foreach_target.h>

#include "backend/cpu/attention/attention-inl.h"

#ifndef NG_BACKEND_CPU_ATTENTION_BACKWARD_ONCE_
#define NG_BACKEND_CPU_ATTENTION_BACKWARD_ONCE_
namespace ng::cpu {
/// Everything of one call, all heads and sequences.
struct BackwardArgs : AttentionBackward {
  AttentionShape shape;
  AttentionTiles tiles;
  Compute compute;
};
}  // namespace ng::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace ng::cpu::HWY_NAMESPACE {

/// One worker's tiles: (edge, width) each, but scores and slopes (edge, edge), lse and mean (edge).
struct BackwardTiles {
  float *q, *q_columns, *dout, *dout_columns, *dq, *k, *v;
  float *scores, *slopes;
  float *lse, *mean;
};

HWY_INLINE BackwardTiles TakeTiles(const AttentionTiles& tiles, TileScratch scratch) {
  BackwardTiles t;
  for (float** matrix : {&t.q, &t.q_columns, &t.dout, &t.dout_columns, &t.dq, &t.k, &t.v})
    *matrix = scratch.take(tiles.edge * tiles.width);
  for (float** square : {&t.scores, &t.slopes}) *square = scratch.take(tiles.edge * tiles.edge);
  for (float** line : {&t.lse, &t.mean}) *line = scratch.take(tiles.edge);
  return t;
}

// D of one query: Σ dout · out over the columns of its head.
HWY_INLINE float MeanSlope(const float* dout, const float* out, int64_t cols, Compute compute) {
  F16 sum = Zero16();
  for (int64_t c = 0; c < cols; c += kLanes) {
    F16 o = Load16(out + c, cols - c);
    if (compute == Compute::bf16) o = ReadAsBf16(o);
    sum = Fma(Load16(dout + c), o, sum);
  }
  return FoldLanes(sum);
}

// Everything about the queries of one tile that does not depend on the keys.
HWY_INLINE void LoadQueries(const BackwardArgs& a, const HeadPlace& place, int64_t first_query,
                            int64_t queries, const BackwardTiles& t) {
  const auto [edge, width] = a.tiles;
  const ConstView out = place.queries(a.out, a.shape);
  for (float* tile : {t.q, t.dout, t.dq}) std::fill_n(tile, edge * width, 0.0f);
  std::fill_n(t.lse, edge, 0.0f);
  std::fill_n(t.mean, edge, 0.0f);
  PackRows(place.queries(a.q, a.shape).slice(first_query, queries), t.q, width, a.compute);
  PackRows(place.queries(a.dout, a.shape).slice(first_query, queries), t.dout, width, a.compute);
  TransposeTile(t.q, t.q_columns, a.tiles);
  TransposeTile(t.dout, t.dout_columns, a.tiles);
  for (int64_t n = 0; n < queries; ++n) {
    const int64_t row = place.sequence * a.shape.length + first_query + n;
    t.lse[n] = a.lse.row(row)[place.head];
    t.mean[n] = MeanSlope(t.dout + n * width, out.row(first_query + n), out.cols, a.compute);
  }
}

// scores -> P, slopes (dP) -> dS, for 16 queries from n and the keys that any of them sees.
HWY_INLINE void Slopes16(const BackwardTiles& t, int64_t n, float scale,
                         const AttentionTiles& tiles, const Visible& visible) {
  const F16 scale16 = Set16(scale);
  const F16 minus_lse = Neg(Load16(t.lse + n));
  const F16 mean = Load16(t.mean + n);
  for (int64_t i = 0; i < visible.keys_of(n + kLanes - 1); ++i) {
    float* score = t.scores + i * tiles.edge + n;
    float* slope = t.slopes + i * tiles.edge + n;
    const F16 p = Exp(Fma(Load16(score), scale16, minus_lse));
    Store16(p, score);
    Store16(Mul(Mul(p, Sub(Load16(slope), mean)), scale16), slope);
  }
}

// One tile of queries against all keys it sees.
HWY_INLINE void BackwardQueries(const BackwardArgs& a, const HeadPlace& place, int64_t first_query,
                                const BackwardTiles& t) {
  const auto [edge, width] = a.tiles;
  const float scale = static_cast<float>(1 / std::sqrt(static_cast<double>(a.shape.head_dim)));
  const int64_t queries = std::min(edge, a.shape.length - first_query);
  LoadQueries(a, place, first_query, queries, t);
  const int64_t position = a.shape.first + first_query;
  const int64_t key_end = position + queries;
  for (int64_t first_key = 0; first_key < key_end; first_key += edge) {
    const Visible visible{.queries = queries,
                          .keys = std::min(edge, key_end - first_key),
                          .diagonal = position - first_key};
    PackRows(place.keys(a.k, a.shape).slice(first_key, visible.keys), t.k, width, a.compute);
    PackRows(place.keys(a.v, a.shape).slice(first_key, visible.keys), t.v, width, a.compute);
    Scores(t.k, t.q_columns, t.scores, a.tiles, visible);
    Scores(t.v, t.dout_columns, t.slopes, a.tiles, visible);
    for (int64_t n = 0; n < queries; n += kLanes) Slopes16(t, n, scale, a.tiles, visible);
    AddOverQueries(t.scores, t.dout, place.keys(a.dv, a.shape).slice(first_key, visible.keys),
                   a.tiles, visible);
    AddOverQueries(t.slopes, t.q, place.keys(a.dk, a.shape).slice(first_key, visible.keys), a.tiles,
                   visible);
    AddOverKeys(t.slopes, t.k, t.dq, a.tiles, visible);
  }
  const View dq = place.queries(a.dq, a.shape).slice(first_query, queries);
  for (int64_t n = 0; n < queries; ++n)
    for (int64_t c = 0; c < dq.cols; c += kLanes) {
      const F16 x = Load16(t.dq + n * width + c);
      Store16(a.compute == Compute::bf16 ? RoundToBf16(x) : x, dq.row(n) + c, dq.cols - c);
    }
}

HWY_INLINE void RoundRows(View x) {
  for (int64_t r = 0; r < x.rows; ++r)
    for (int64_t c = 0; c < x.cols; c += kLanes)
      Store16(RoundToBf16(Load16(x.row(r) + c, x.cols - c)), x.row(r) + c, x.cols - c);
}

void BackwardHeads(const BackwardArgs& a, int64_t item, std::span<std::byte> memory) {
  const BackwardTiles tiles = TakeTiles(a.tiles, TileScratch(memory));
  const int64_t group = a.shape.heads / a.shape.kv_heads;
  HeadPlace place{
      .sequence = item / a.shape.kv_heads, .head = 0, .kv_head = item % a.shape.kv_heads};
  const View dk = place.keys(a.dk, a.shape);
  const View dv = place.keys(a.dv, a.shape);
  for (int64_t j = 0; j < dk.rows; ++j) {
    std::fill_n(dk.row(j), dk.cols, 0.0f);
    std::fill_n(dv.row(j), dv.cols, 0.0f);
  }
  for (int64_t g = 0; g < group; ++g) {
    place.head = place.kv_head * group + g;
    for (int64_t n = 0; n < a.shape.length; n += a.tiles.edge) BackwardQueries(a, place, n, tiles);
  }
  if (a.compute == Compute::bf16) {
    RoundRows(dk);
    RoundRows(dv);
  }
}

}  // namespace ng::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ng::cpu {

HWY_EXPORT(BackwardHeads);

// q and dout twice, dq, k and v.
constexpr int64_t kBackwardMatrices = 7;

void attention_backward(Workspace& workspace, const AttentionBackward& a,
                        const AttentionShape& shape, Compute compute) {
  check_attention(shape, a.q, a.k, a.v);
  const auto like = [](ConstView x, ConstView y) { return x.rows == y.rows && x.cols == y.cols; };
  NG_CHECK(like(a.dq, a.q) && like(a.dout, a.q) && like(a.out, a.q), a.dq.rows, a.dq.cols,
           a.dout.rows, a.dout.cols, a.out.rows, a.out.cols);
  NG_CHECK(like(a.dk, a.k) && like(a.dv, a.v), a.dk.rows, a.dk.cols, a.dv.rows, a.dv.cols);
  NG_CHECK(a.lse.rows == a.q.rows && a.lse.cols == shape.heads, a.lse.rows, a.lse.cols,
           shape.heads);
  const BackwardArgs all{a, shape, attention_tiles(shape.head_dim, kBackwardMatrices), compute};
  parallel_for(workspace.threads(), shape.sequences * shape.kv_heads,
               [&](int64_t item, int worker) {
                 HWY_DYNAMIC_DISPATCH(BackwardHeads)(all, item, workspace.worker(worker));
               });
}

}  // namespace ng::cpu
#endif
