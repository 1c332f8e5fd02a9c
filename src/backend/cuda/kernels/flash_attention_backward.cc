// The adjoint of causal attention by matrix units, deterministic: a block owns 64 queries of a head
// and goes through the keys that they see, or owns 64 keys of a kv head and goes through the
// queries that see them, 16 at a time for each warp. Probabilities are made again of q, k and lse.
// [Dao 2023, Algorithm 2, in two passes]
#include <cmath>
#include <type_traits>

#include "backend/cuda/kernels/fragments.h"

namespace ng::cuda {
namespace {

/// What both passes read.
struct FlashGradients {
  FlashBlocks blocks;
  Heads heads;
  Source dout, lse, q, k, v;
  const float* means;
  uint32_t* left;

  /// Of a query: lse · log2 e.
  [[nodiscard]] __device__ float lse2(int64_t row, int64_t head) const {
    return lse(row, head) * kLog2e;
  }
  [[nodiscard]] __device__ float mean(int64_t row, int64_t head) const {
    return means[row * heads.s.heads + head];
  }
  /// P and dS, in place of q·k and dout·v, of a query and a key.
  __device__ void to_slope(float& qk, float& dp, bool sees, float lse2, float mean) const {
    const float p = exp2_approx(std::fma(qk, heads.scale * kLog2e, -lse2));
    qk = sees ? p : 0.0f;
    dp = sees ? p * (dp - mean) * heads.scale : 0.0f;
  }
};

/// The same where registers are too few: they stay in a tile.
template <int kCols>
struct TileRows {
  int which = 0, row = 0;
  template <class Tiles>
  __device__ void take(const Tiles& /* tiles */, int of, int from) {
    which = of;
    row = from;
  }
  template <class Tiles>
  __device__ void read(uint32_t (&to)[4], const Tiles& tiles, int step) const {
    load_rows<kCols>(to, tiles, which, row, step);
  }
};

/// Rows of a warp, g and g + 8 of its 16 of a lane, from `row` of `to` on, as far as there are.
template <int kCols>
__device__ void put_rows(const Target& to, int64_t row, int rows, int64_t col, int cols,
                         const float (&sums)[kCols / 16][2][4]) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  NG_UNROLL
  for (int i = 0; i < kCols / 2; ++i) {
    const int r = lane / 4 + i % 4 / 2 * 8, c = 8 * (i / 4) + 2 * (lane % 4) + i % 2;
    if (r < rows && c < cols) to.put(row + r, col + c, sums[i / 8][i / 4 % 2][i % 4]);
  }
}

/// dq of a block of queries.
template <int kCols>
struct FlashQueryGradient {
  static constexpr int kBlocks = flash_blocks(kCols);
  enum { keys, values, kTiles };

  FlashGradients in;
  Target dq;

  __device__ void operator()() const {
    NG_SHARED_DYNAMIC(Quad, tiles);
    const Heads& heads = in.heads;
    const AttentionShape& s = heads.s;
    const FlashPlace at(in.blocks);
    const int warp = static_cast<int>(threadIdx.x) / kWarp,
              lane = static_cast<int>(threadIdx.x) % kWarp;
    const int mine = warp * kWarpRows, d = s.head_dim;
    const int64_t row = at.sequence * s.length + at.first, col = heads.query_col(at.head);
    HeldRows<kCols> query, dout;
    load_tile<kCols>(tiles, keys, in.q, row, col, at.rows, d);
    load_tile<kCols>(tiles, values, in.dout, row, col, at.rows, d);
    __syncthreads();
    query.take(tiles, keys, mine);
    dout.take(tiles, values, mine);
    const LaneQueries own(heads, at, row, mine);
    float lse2[2] = {}, mean[2] = {};
    for (int of = 0; of < 2; ++of) {
      const int i = mine + lane / 4 + 8 * of;
      if (i >= at.rows) continue;
      lse2[of] = in.lse2(row + i, at.head);
      mean[of] = in.mean(row + i, at.head);
    }
    float sums[kCols / 16][2][4] = {};
    const int64_t kv_col = heads.kv_head(at.head) * d;
    const int start = static_cast<int>(s.first) + at.first;
    const int end = start + at.rows, last = start + mine + kWarpRows - 1;
    bool is_odd = false;
    for (int j = first_tile(heads, row, at); j < end; j += kFlashRows) {
      const int64_t keys_row = heads.keys_row(row) + j;
      is_odd |= load_tile<kCols>(tiles, keys, in.k, keys_row, kv_col, end - j, d);
      load_tile<kCols>(tiles, values, in.v, keys_row, kv_col, end - j, d);
      __syncthreads();
      NG_ROLLED
      for (int key = 0; key < kFlashRows && mine < at.rows && j + key <= last; key += 16) {
        float p[2][4] = {}, ds[2][4] = {};
        multiply_turned<kCols>(p, query, tiles, keys, key, d);
        multiply_turned<kCols>(ds, dout, tiles, values, key, d);
        NG_UNROLL
        for (int i = 0; i < 8; ++i) {
          const int of = i % 4 / 2;
          const bool sees = own.see(of, j + key + i / 4 * 8 + 2 * (lane % 4) + i % 2);
          in.to_slope(p[i / 4][i % 4], ds[i / 4][i % 4], sees, lse2[of], mean[of]);
        }
        multiply_straight<kCols>(sums, Factors(ds, heads.are_rounded), tiles, keys, key, d);
      }
      __syncthreads();
    }
    put_rows<kCols>(dq, row + mine, at.rows - mine, col, d, sums);
    tell_odd(is_odd, in.left[at.block]);
  }
};

/// Whether any of 64 queries from i on sees a key up to this one: for all lanes of all warps alike.
__device__ inline bool see_any(const Heads& heads, int64_t row, int i, int key) {
  bool sees = false;
  for (int own = static_cast<int>(threadIdx.x) % kWarp;
       own < kFlashRows && i + own < heads.s.length; own += kWarp)
    sees |= heads.first_key(row + own, i + own) <= key;
  return __any_sync(~0u, sees);
}

/// Of a query of a tile, for all keys: which it sees, and the numbers that its slopes need.
struct TileQuery {
  int first, last;  ///< keys; first > last where there is no query
  float lse2, mean;
};

/// dk and dv of a block of keys.
template <int kCols>
struct FlashKeyGradient {
  static constexpr int kBlocks = 2;
  static constexpr bool kHoldsValues = kCols <= 64;
  enum { queries, slopes, values = kHoldsValues ? slopes : slopes + 1 };  // tiles: q, dout
  static constexpr int kTiles = values + 1;
  using ValueRows = std::conditional_t<kHoldsValues, HeldRows<kCols>, TileRows<kCols>>;

  /// A warp's 16 keys, from `first` on.
  struct Keys {
    int first = 0;
    HeldRows<kCols> key;
    ValueRows value;
    float dk[kCols / 16][2][4] = {}, dv[kCols / 16][2][4] = {};
  };

  FlashGradients in;
  Target dk, dv;

  __device__ void operator()() const {
    NG_SHARED_DYNAMIC(Quad, tiles);
    NG_SHARED(TileQuery, seers, kFlashRows);
    const Heads& heads = in.heads;
    const AttentionShape& s = heads.s;
    const FlashPlace at(in.blocks);
    const int mine = static_cast<int>(threadIdx.x) / kWarp * kWarpRows, d = s.head_dim;
    const int64_t row = at.sequence * s.kv_stride + at.first, col = at.head * d;
    Keys own;
    own.first = at.first + mine;
    load_tile<kCols>(tiles, queries, in.k, row, col, at.rows, d);
    load_tile<kCols>(tiles, values, in.v, row, col, at.rows, d);
    __syncthreads();
    own.key.take(tiles, queries, mine);
    own.value.take(tiles, values, mine);
    const int group = s.heads / s.kv_heads, last_key = at.first + at.rows - 1;
    const int start = static_cast<int>(s.first), length = static_cast<int>(s.length);
    // The first query that sees the first key, and the last that a window lets see the last one.
    const int first = at.first > start ? at.first - start : 0;
    const int64_t seen = s.window == 0 ? length : last_key + s.window - start;
    const int end = seen < length ? static_cast<int>(seen) : length;
    bool is_odd = false;
    NG_ROLLED
    for (int head = at.head * group; head < (at.head + 1) * group; ++head) NG_ROLLED
    for (int i = first / kFlashRows * kFlashRows; i < end; i += kFlashRows) {
      const int64_t queries_row = at.sequence * s.length + i;
      if (!see_any(heads, queries_row, i, last_key)) continue;
      __syncthreads();
      is_odd |= load_queries(tiles, seers, queries_row, i, head);
      __syncthreads();
      if (mine < at.rows) add_tile(own, tiles, seers, start + i);
    }
    put_rows<kCols>(dk, row + mine, at.rows - mine, col, d, own.dk);
    put_rows<kCols>(dv, row + mine, at.rows - mine, col, d, own.dv);
    tell_odd(is_odd, in.left[at.block]);
  }

 private:
  template <class Tiles, class Seers>
  __device__ bool load_queries(const Tiles& tiles, Seers& seers, int64_t row, int i,
                               int head) const {
    const Heads& heads = in.heads;
    const int rest = static_cast<int>(heads.s.length) - i, own = static_cast<int>(threadIdx.x);
    const int64_t col = heads.query_col(head);
    const bool q = load_tile<kCols>(tiles, queries, in.q, row, col, rest, heads.s.head_dim);
    const bool dout = load_tile<kCols>(tiles, slopes, in.dout, row, col, rest, heads.s.head_dim);
    if (own < kFlashRows) {
      TileQuery query{.first = 1, .last = 0, .lse2 = 0, .mean = 0};
      if (own < rest)
        query = {.first = static_cast<int>(heads.first_key(row + own, i + own)),
                 .last = static_cast<int>(heads.s.first) + i + own,
                 .lse2 = in.lse2(row + own, head),
                 .mean = in.mean(row + own, head)};
      seers[own] = query;
    }
    return q || dout;
  }

  /// The queries of a tile, whose first one's last key is `last`.
  template <class Tiles, class Seers>
  __device__ void add_tile(Keys& own, const Tiles& tiles, const Seers& seers, int last) const {
    const int lane = static_cast<int>(threadIdx.x) % kWarp, d = in.heads.s.head_dim;
    NG_ROLLED
    for (int row = 0; row < kFlashRows; row += 16) {
      if (last + row + 15 < own.first) continue;  // none sees any of these keys
      float p[2][4] = {}, ds[2][4] = {};
      multiply_turned<kCols>(p, own.key, tiles, queries, row, d);
      multiply_turned<kCols>(ds, own.value, tiles, slopes, row, d);
      NG_UNROLL
      for (int i = 0; i < 8; ++i) {
        const TileQuery query = seers[row + i / 4 * 8 + 2 * (lane % 4) + i % 2];
        const int key = own.first + lane / 4 + i % 4 / 2 * 8;
        const bool sees = query.first <= key && key <= query.last;
        in.to_slope(p[i / 4][i % 4], ds[i / 4][i % 4], sees, query.lse2, query.mean);
      }
      const bool are_rounded = in.heads.are_rounded;
      multiply_straight<kCols>(own.dv, Factors(p, are_rounded), tiles, slopes, row, d);
      multiply_straight<kCols>(own.dk, Factors(ds, are_rounded), tiles, queries, row, d);
    }
  }
};

FlashGradients gradients_of(const AttentionBackward& op, const FlashBlocks& blocks,
                            const Heads& heads, const float* means, uint32_t* left) {
  constexpr std::string_view kName = AttentionBackward::kName;
  return {blocks,
          heads,
          source_of(kName, op.dout),
          source_of(kName, op.lse),
          source_of(kName, op.q),
          source_of(kName, op.k),
          source_of(kName, op.v),
          means,
          left};
}

template <int kCols, class Gradient>
void launch_flash(Stream stream, const Gradient& gradient) {
  if (gradient.in.blocks.count() == 0) return;
  launch<flash<Gradient>>(stream,
                          {.grid = {static_cast<unsigned>(gradient.in.blocks.count())},
                           .block = {kFlashThreads},
                           .shared = Gradient::kTiles * TileShape<kCols>::kSize * sizeof(Quad)},
                          gradient);
}

}  // namespace

void flash_query_gradients(Stream stream, const AttentionBackward& op, const Heads& heads,
                           const float* means, uint32_t* left) {
  const FlashGradients in = gradients_of(op, query_blocks(op.shape), heads, means, left);
  const Target dq = target_of(AttentionBackward::kName, op.dq);
  if (heads.s.head_dim <= 64) return launch_flash<64>(stream, FlashQueryGradient<64>{in, dq});
  launch_flash<128>(stream, FlashQueryGradient<128>{in, dq});
}

void flash_key_gradients(Stream stream, const AttentionBackward& op, const Heads& heads,
                         const float* means, uint32_t* left) {
  const FlashGradients in = gradients_of(op, key_blocks(op.shape), heads, means, left);
  const Target dk = target_of(AttentionBackward::kName, op.dk);
  const Target dv = target_of(AttentionBackward::kName, op.dv);
  if (heads.s.head_dim <= 64) return launch_flash<64>(stream, FlashKeyGradient<64>{in, dk, dv});
  launch_flash<128>(stream, FlashKeyGradient<128>{in, dk, dv});
}

}  // namespace ng::cuda
