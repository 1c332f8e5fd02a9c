// Tiles of queries walk over tiles of keys with a running maximum and sum per query:
//   S = Kᵀile · Qᵀ   scores, keys × queries, so that softmax works on whole vectors of queries
//   m' = max(m, max S · scale),  P = exp(S · scale - m'),  l = l · exp(m - m') + ΣP
//   O = O · exp(m - m') + Pᵀ · V
// and at the end out = O / l, lse = m + log l. [Dao et al. 2022, algorithm 1] As BF16 probabilities
// the P of the last product is rounded to nearest even; l sums what is not.
#include "backend/cpu/attention/attention.h"

#include <cmath>

#include "backend/cpu/ops/stored_amax.h"
#include "backend/cpu/types.h"
#include "math/log.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/attention/attention.cc"
#include <hwy/foreach_target.h>

#include "backend/cpu/attention/attention-inl.h"

#ifndef NG_BACKEND_CPU_ATTENTION_ONCE_
#define NG_BACKEND_CPU_ATTENTION_ONCE_
namespace ng::cpu {
/// One head's tile of queries.
struct ForwardItem {
  View out;         // (length, head_dim) of this head, as q; k and v (kv_length, head_dim)
  Rows<float> lse;  // (length, 1)
  ConstView q, k, v;
  int64_t first_query;   // of the tile within the sequence
  TokenView first_keys;  // of the sequence's queries; empty: 0
  AttentionShape shape;  // of all heads and sequences
  AttentionTiles tiles;
  Compute probabilities;
  bool pairs;  // products by pairs of BF16
};
}  // namespace ng::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace ng::cpu::HWY_NAMESPACE {

struct Softmax {
  float* max;
  float* sum;
  float* rescale;  // of what was summed before this tile
};

// scores -> P for 16 queries from n; P of keys a query does not see is 0.
HWY_INLINE void SoftmaxOf16(float* scores, const Softmax& state, int64_t n, float scale,
                            const AttentionTiles& tiles, const Visible& visible) {
  const F16 minus_infinity = Set16(-std::numeric_limits<float>::infinity());
  const F16 scale16 = Set16(scale);
  const int64_t first = visible.first_of(n);  // no lane sees an earlier one
  const int64_t common = visible.keys_of(n);
  const int64_t keys = visible.keys_of(n + kLanes - 1);
  alignas(64) static constexpr float kIndex[] = {0, 1, 2,  3,  4,  5,  6,  7,
                                                 8, 9, 10, 11, 12, 13, 14, 15};
  const F16 index = Load16(kIndex);
  const FirstKeys16 first_keys(visible, n);
  F16 largest = minus_infinity;
  for (int64_t i = first; i < keys; ++i) {
    float* at = scores + i * tiles.edge + n;
    F16 s = Load16(at);
    if (i >= common) {
      const F16 first_seeing = Set16(static_cast<float>(i - visible.diagonal - n));
      s = Select(Ge(index, first_seeing), s, minus_infinity);
    }
    s = first_keys.Seen(s, i, minus_infinity);
    if (i >= common || first_keys.hides()) Store16(s, at);
    largest = Max(s, largest);
  }
  const F16 old_max = Load16(state.max + n);
  const F16 max = Max(Mul(largest, scale16), old_max);
  // A query whose scores are all -inf so far: exp(-inf - 0) = 0 instead of NaN.
  const F16 shift = Select(Eq(max, minus_infinity), Zero16(), max);
  const F16 minus_shift = Neg(shift);
  F16 sum = Zero16();
  for (int64_t i = first; i < keys; ++i) {
    float* at = scores + i * tiles.edge + n;
    const F16 p = Exp(Fma(Load16(at), scale16, minus_shift));
    Store16(p, at);
    sum = Add(sum, p);
  }
  const F16 rescale = Exp(Sub(old_max, shift));
  Store16(rescale, state.rescale + n);
  Store16(max, state.max + n);
  Store16(Fma(Load16(state.sum + n), rescale, sum), state.sum + n);
}

HWY_INLINE void ScaleRows(float* x, const float* factor, int64_t rows, int64_t width) {
  for (int64_t r = 0; r < rows; ++r) {
    const F16 f = Set16(factor[r]);
    for (int64_t c = 0; c < width; c += kLanes)
      Store16(Mul(Load16(x + r * width + c), f), x + r * width + c);
  }
}

// sums becomes the output.
HWY_INLINE void StoreOutput(const ForwardItem& item, int64_t queries, float* sums,
                            const Softmax& state) {
  const int64_t width = item.tiles.width;
  for (int64_t n = 0; n < queries; ++n) {
    const F16 sum = Set16(state.sum[n]);
    for (float* x = sums + n * width; x < sums + (n + 1) * width; x += kLanes)
      Store16(Div(Load16(x), sum), x);
    *item.lse.row(item.first_query + n) =
        static_cast<float>(state.max[n] + math::log(static_cast<double>(state.sum[n])));
  }
  UnpackRows(sums, item.out.slice(item.first_query, queries), width, item.probabilities);
}

void AttentionForward(const ForwardItem& item, std::span<std::byte> memory) {
  const auto [edge, width] = item.tiles;
  const float scale = static_cast<float>(1 / std::sqrt(static_cast<double>(item.q.cols)));
  TileScratch scratch(memory);
  TakeTiles take(item.tiles, item.pairs, scratch);
  TileMatrix q = take.queries(), k = take.keys(), v = take.keys();
  const TileWeights weights = take.weights();
  float* const scores = weights.values;  // which become P
  float* const sums = take.matrix();
  const Softmax state{take.line(), take.line(), take.line()};
  float* const first_keys_line = take.line();

  const int64_t queries = std::min(edge, item.q.rows - item.first_query);
  std::fill_n(sums, edge * width, 0.0f);
  std::fill_n(state.max, edge, -std::numeric_limits<float>::infinity());
  std::fill_n(state.sum, edge, 0.0f);
  q.load(item.q.slice(item.first_query, queries));

  const float* const first_keys =
      FirstKeys(item.first_keys, item.shape, item.first_query, queries, edge, first_keys_line);
  const int64_t position = item.shape.first + item.first_query;
  const int64_t last_position = position + queries - 1;
  const int64_t first_tile = FirstTile(first_keys, edge);
  for (int64_t first_key = first_tile; first_key <= last_position; first_key += edge) {
    const Visible visible{.queries = queries,
                          .keys = std::min(edge, last_position + 1 - first_key),
                          .diagonal = position - first_key,
                          .window = window_of(item.shape),
                          .first_key = first_key,
                          .first_keys = first_keys};
    k.load(item.k.slice(first_key, visible.keys));
    v.load(item.v.slice(first_key, visible.keys));
    FindScores(k, q, scores, item.tiles, visible);
    for (int64_t n = 0; n < queries; n += kLanes)
      SoftmaxOf16(scores, state, n, scale, item.tiles, visible);
    if (first_key > first_tile) ScaleRows(sums, state.rescale, queries, width);
    AddOverKeys(weights, v, sums, item.tiles, visible, item.probabilities);
  }
  StoreOutput(item, queries, sums, state);
}

}  // namespace ng::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ng::cpu {

HWY_EXPORT(AttentionForward);

// q twice, k, v and the sums.
constexpr int64_t kForwardMatrices = 5;

// Tiles of one head done in a row find its keys and values in the L2 cache; with few heads every
// tile is an item of its own, so that many threads find work.
constexpr int64_t kTilesInARow = 4;
constexpr int64_t kManyHeads = 32;

void check_attention(const AttentionShape& s, const ConstView& q, const ConstView& k,
                     const ConstView& v, const TokenView& first_keys) {
  NG_CHECK(first_keys.empty() || std::ssize(first_keys) == q.rows, first_keys.size(), q.rows);
  NG_CHECK(s.heads > 0 && s.kv_heads > 0 && s.heads % s.kv_heads == 0 && s.head_dim > 0, s.heads,
           s.kv_heads, s.head_dim);
  NG_CHECK(q.rows == s.sequences * s.length && q.cols == int64_t{s.heads} * s.head_dim, q.rows,
           q.cols, s.sequences, s.length, s.heads, s.head_dim);
  NG_CHECK(k.rows == v.rows && k.cols == v.cols && k.cols == int64_t{s.kv_heads} * s.head_dim,
           k.rows, k.cols, v.rows, v.cols, s.kv_heads, s.head_dim);
  NG_CHECK(s.kv_length <= s.kv_stride && k.rows >= s.sequences * s.kv_stride, s.kv_length,
           s.kv_stride, k.rows, s.sequences);
  NG_CHECK(s.first >= 0 && s.first + s.length <= s.kv_length, s.first, s.length, s.kv_length);
  NG_CHECK(s.window >= 0, s.window);
}

void perform(Workspace& workspace, const Attention& op) {
  const AttentionShape& shape = op.shape;
  require_one_type(op.kName, {op.out, op.q, op.k, op.v});
  require_fp32(op.kName, {op.lse});
  check_attention(shape, op.q, op.k, op.v, op.first_keys);
  NG_CHECK(same_shape(op.out, op.q) && op.lse.rows == op.q.rows && op.lse.cols == shape.heads,
           op.out.rows, op.out.cols, op.lse.rows, op.lse.cols);
  const Rows<float> lse = op.lse.as<float>();
  const AttentionTiles tiles = attention_tiles(shape.head_dim, kForwardMatrices);
  const bool pairs = takes_pairs(op.q, tiles, floats_of_tiles(tiles, kForwardMatrices));
  const int64_t heads = shape.sequences * shape.heads;
  const int64_t query_tiles = (shape.length + tiles.edge - 1) / tiles.edge;
  const int64_t run = heads >= kManyHeads ? kTilesInARow : 1;
  const int64_t runs = (query_tiles + run - 1) / run;
  const AmaxOfBlocks amax(op.amax);
  const auto body = [&](int64_t index, int worker) {
    const int64_t head = index / runs % shape.heads;
    const HeadPlace place{.sequence = index / runs / shape.heads,
                          .head = head,
                          .kv_head = head / (shape.heads / shape.kv_heads)};
    ForwardItem item{.out = place.queries(op.out, shape),
                     .lse = lse.slice(place.sequence * shape.length, shape.length).columns(head, 1),
                     .q = place.queries(op.q, shape),
                     .k = place.keys(op.k, shape),
                     .v = place.keys(op.v, shape),
                     .first_query = 0,
                     .first_keys = place.first_keys(op.first_keys, shape),
                     .shape = shape,
                     .tiles = tiles,
                     .probabilities = op.probabilities,
                     .pairs = pairs};
    const int64_t first_tile = index % runs * run;
    for (int64_t tile = first_tile; tile < std::min(first_tile + run, query_tiles); ++tile) {
      item.first_query = tile * tiles.edge;
      HWY_DYNAMIC_DISPATCH(AttentionForward)(item, workspace.worker(worker));
      const int64_t queries = std::min(tiles.edge, shape.length - item.first_query);
      amax.note(item.out.slice(item.first_query, queries));
    }
  };
  parallel_for(workspace.threads(), heads * runs, body);
}

}  // namespace ng::cpu
#endif
